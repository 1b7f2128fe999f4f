//! `cargo xtask lab repro`

use crate::{complete, exit, results, root, setup::Setup};
use anyhow::Result;
use clap::Args;
use lab::{
    cache::Cache,
    host::prerequisites::Need,
    kernel::{self, Kernel},
    progress::Progress,
    report::{ScenarioResult, Terminal},
    repro::{Outcome, Ready, Reproducer},
    run::schedule::Rounds,
};
use std::path::{Path, PathBuf};

/// Does a failure happen again? Runs a repro.yaml, which a failed scenario leaves
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab repro repro.yaml                         once, on the kernel it failed on\n  \
    cargo xtask lab repro repro.yaml --repeat 20             how often does it happen?\n  \
    cargo xtask lab repro repro.yaml --kernel 7.2            is it fixed there?\n  \
    cargo xtask lab repro repro.yaml --kernel-tree ~/linux   or by a patch of yours?\n\n\
    The file is all it takes: it brings the scenario, the sources of its modules and workloads, and the \
    version and configuration of its kernel, which is built if it is not in the cache. What it brings is \
    built and run on this machine, makefiles of modules too: look into a file from someone else first.\n\n\
    Results go to results/<time>-<kernel>/, and results/latest points at them.\n\n\
    Exit codes: 0 reproduced: the same step, expectation or splat, in the same way (with --repeat: at least \
    once); 10 it fails otherwise; 11 it passes; 12 the kernel lacks what it requires; 2 usage, or the file is \
    no reproducer; 3 the lab itself could not do its work.")]
pub(crate) struct Repro {
    /// A repro.yaml
    file: PathBuf,
    /// Run it N times, and show how often it is reproduced
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    repeat: Option<u32>,
    #[command(flatten)]
    kernel: Instead,
    /// Where results go [default: results/]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Show steps and expectations that held, too
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    setup: Setup,
}

/// The kernel, if it is not to be the file's own.
#[derive(Args)]
pub(crate) struct Instead {
    /// Run it on this kernel of kernels/*.yaml, not on the one that the file brings
    #[arg(long = "kernel", value_name = "NAME", add = complete::kernels())]
    name: Option<String>,
    /// Build that kernel from this tree instead of its own source [with the kernel 6.12, if none is named]
    #[arg(long = "kernel-tree", value_name = "PATH")]
    tree: Option<PathBuf>,
}

impl Instead {
    /// The kernel, built; none where the file's own is wanted.
    pub(crate) fn build(&self, cache: &Cache, progress: &Progress) -> Result<Option<Kernel>> {
        let name = match (&self.name, &self.tree) {
            (Some(name), _) => name,
            (None, Some(_)) => kernel::DEFAULT,
            (None, None) => return Ok(None),
        };
        kernel::build(cache, root(), name, self.tree.as_deref(), progress).map(Some)
    }
}

impl Repro {
    pub(crate) fn run(self) -> Result<u8> {
        // Before anything is built: what is no reproducer should not cost a kernel build.
        let reproducer = Reproducer::read(&self.file)?;
        let progress = Progress::new();
        let cache = self.setup.ensure(Need::Run, &progress)?;
        let kernel = self.kernel.build(&cache, &progress)?;
        let ready = Ready::new(&cache, root(), &reproducer, kernel.as_ref(), &progress)?;
        for difference in ready.differences() {
            println!("note: {difference}");
        }
        let rounds = self.repeat.map_or(Rounds::One, Rounds::Count);
        let results = self.results.clone().unwrap_or_else(results);
        let terminal = Terminal::new(self.verbose);
        let mut tally = Tally::default();
        let finished = |result: &ScenarioResult, run: &Path| {
            let text = terminal.result(result, run);
            tally.add(ready.outcome(result), &reproducer);
            let last = tally.last.as_deref().unwrap_or_default();
            progress.suspend(|| println!("{text}{last}"));
        };
        let (_, directory) = ready.run(&results, rounds, false, &progress, finished)?;
        if self.repeat.is_some() {
            println!("{}", tally.summary());
        }
        println!("results: {}", directory.display());
        tally.code()
    }
}

/// How often it came to what.
#[derive(Default)]
struct Tally {
    reproduced: usize,
    otherwise: usize,
    passes: usize,
    unsupported: usize,
    /// The last outcome in words.
    last: Option<String>,
    /// Why the lab could not do its part.
    error: Option<anyhow::Error>,
}

impl Tally {
    fn add(&mut self, outcome: Result<Outcome>, reproducer: &Reproducer) {
        let (count, words) = match outcome {
            Ok(Outcome::Reproduced) => {
                let what = format!("reproduced: {}", reproducer.verdict.broken);
                (&mut self.reproduced, what)
            }
            Ok(Outcome::FailsOtherwise(how)) => (&mut self.otherwise, format!("fails otherwise: {how}")),
            Ok(Outcome::Passes) => (&mut self.passes, "passes".to_owned()),
            Ok(Outcome::Unsupported(reason)) => (&mut self.unsupported, format!("unsupported: {reason}")),
            Err(error) => {
                self.last = Some("not run".to_owned());
                self.error = Some(error);
                return;
            }
        };
        *count += 1;
        self.last = Some(words);
    }

    fn summary(&self) -> String {
        let all = self.reproduced + self.otherwise + self.passes + self.unsupported;
        let others = [
            (self.otherwise, "failed otherwise"),
            (self.passes, "passed"),
            (self.unsupported, "unsupported"),
        ];
        let others = others.iter().filter(|(count, _)| *count > 0);
        let others: String = others.map(|(count, what)| format!(", {count} {what}")).collect();
        format!("reproduced {} of {all}{others}", self.reproduced)
    }

    fn code(self) -> Result<u8> {
        if let Some(error) = self.error {
            return Err(error);
        }
        Ok(match self {
            Tally { reproduced: 1.., .. } => exit::SUCCESS,
            Tally { otherwise: 1.., .. } => exit::OTHERWISE,
            Tally { passes: 1.., .. } => exit::PASSES,
            _ => exit::UNSUPPORTED,
        })
    }
}
