//! `cargo xtask lab repro`

use crate::{complete, exit, results, setup::Setup, trust::Trust};
use anyhow::Result;
use clap::Args;
use lab::{
    Lab,
    host::prerequisites::Need,
    kernel::{self, Kernel},
    report::Terminal,
    repro::{Outcome, Ready, show},
    reproducer::Reproducer,
    run::{Event, Reporter, schedule::Rounds},
};
use std::path::PathBuf;

/// Reproduce a failure from the repro.yaml that a failed scenario leaves
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab repro repro.yaml                         once, on the kernel it failed on\n  \
    cargo xtask lab repro repro.yaml --show                  what would it do?\n  \
    cargo xtask lab repro repro.yaml --repeat 20             20 times: how often does it fail?\n  \
    cargo xtask lab repro repro.yaml --kernel 7.2            is it fixed there?\n  \
    cargo xtask lab repro repro.yaml --kernel-tree ~/linux   does your patch fix it?\n\n\
    The file is self-contained: it has the scenario, the sources of its modules and workloads, and the \
    version and configuration of its kernel, which is built if it is not in the cache. Its contents, \
    including the makefiles of modules, are built on this host, confined by bubblewrap; if that does not work \
    here, the lab asks first.\n\n\
    Results go to results/<time>-<kernel>/, and results/latest points to them.\n\n\
    Exit codes: 0 reproduced: the same step, expectation or splat, in the same way (with --repeat: at least \
    once); 10 it fails differently; 11 it passes; 12 the kernel lacks what it requires; 2 usage error, or the \
    file is not a reproducer; 3 the lab itself failed.")]
pub(crate) struct Repro {
    /// A repro.yaml
    file: PathBuf,
    /// Run it N times and show how often it reproduces
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    repeat: Option<u32>,
    #[command(flatten)]
    kernel: KernelOverride,
    /// Directory for results [default: results/]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Also show steps and expectations that held
    #[arg(long, short)]
    verbose: bool,
    /// Show what it would fetch, build, patch and run, and do nothing
    #[arg(long)]
    show: bool,
    #[command(flatten)]
    trust: Trust,
    #[command(flatten)]
    setup: Setup,
}

/// The kernel to use instead of the file's.
#[derive(Args)]
pub(crate) struct KernelOverride {
    /// Run it on this kernel of kernels/*.yaml instead of the one that the file describes
    #[arg(long = "kernel", value_name = "NAME", add = complete::kernels())]
    name: Option<String>,
    /// Build that kernel from this tree instead of its own source; without --kernel, build 6.12
    #[arg(long = "kernel-tree", value_name = "PATH")]
    tree: Option<PathBuf>,
}

impl KernelOverride {
    /// Builds the kernel; returns `None` if the file's is used.
    pub(crate) fn build(&self, lab: &Lab) -> Result<Option<Kernel>> {
        let name = match (&self.name, &self.tree) {
            (Some(name), _) => name,
            (None, Some(_)) => kernel::DEFAULT,
            (None, None) => return Ok(None),
        };
        kernel::build(lab, name, self.tree.as_deref()).map(Some)
    }
}

impl Repro {
    pub(crate) fn run(self) -> Result<u8> {
        // Before anything is built: an invalid reproducer should not cost a kernel build.
        let reproducer = Reproducer::read(&self.file)?;
        if self.show {
            print!("{}", show(&reproducer)?);
            return Ok(exit::SUCCESS);
        }
        let lab = self.setup.ensure(Need::Run)?;
        self.trust.ensure(&self.file)?;
        let kernel = self.kernel.build(&lab)?;
        let ready = Ready::new(&lab, &reproducer, kernel.as_ref())?;
        for difference in ready.differences() {
            println!("note: {difference}");
        }
        let rounds = self.repeat.map_or(Rounds::One, Rounds::Count);
        let results = self.results.clone().unwrap_or_else(results);
        let terminal = Terminal::new(self.verbose);
        let mut tally = Tally::default();
        let mut reporter = Reporter::new(&lab.progress);
        let (_, directory) = ready.run(&results, rounds, false, |event| {
            reporter.draw(&event);
            if let Event::Result { result, directory } = event {
                let text = terminal.result(result, directory);
                tally.add(ready.outcome(result), &reproducer);
                let last = tally.last.as_deref().unwrap_or_default();
                lab.progress.suspend(|| println!("{text}{last}"));
            }
        })?;
        if self.repeat.is_some() {
            println!("{}", tally.summary());
        }
        println!("results: {}", directory.display());
        tally.code()
    }
}

/// The number of runs per outcome.
#[derive(Default)]
struct Tally {
    reproduced: usize,
    otherwise: usize,
    passes: usize,
    unsupported: usize,
    /// A description of the last outcome.
    last: Option<String>,
    /// The error of a run that failed in the lab itself.
    error: Option<anyhow::Error>,
}

impl Tally {
    fn add(&mut self, outcome: Result<Outcome>, reproducer: &Reproducer) {
        let (count, words) = match outcome {
            Ok(Outcome::Reproduced) => {
                let what = format!("reproduced: {}", reproducer.verdict.broken);
                (&mut self.reproduced, what)
            }
            Ok(Outcome::FailsDifferently(how)) => (&mut self.otherwise, format!("fails differently: {how}")),
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
            (self.otherwise, "failed differently"),
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
            Tally { otherwise: 1.., .. } => exit::DIFFERENT_FAILURE,
            Tally { passes: 1.., .. } => exit::PASSES,
            _ => exit::UNSUPPORTED,
        })
    }
}
