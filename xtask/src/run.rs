//! `cargo xtask lab run`

use crate::{Usage, complete, exit, results, root, scenarios, setup::Setup};
use anyhow::Result;
use clap::{Args, builder::TypedValueParser};
use lab::{
    host::prerequisites::Need,
    kernel,
    progress::Progress,
    report::{Rates, Terminal, now_micros, side_by_side, summary},
    run::{
        Options, default_jobs, prepare, run,
        schedule::Rounds,
        select::{Selection, failed, nested},
        shard::Shard,
        times::Times,
    },
    scenario::{self, Found, Scenario},
    stored::TRACE,
    trace::{Event, Trace, diff},
};
use regex::Regex;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Build what is missing, boot each kernel and run scenarios on it
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab run --yes                          every scenario on the default kernel\n  \
    cargo xtask lab run scenarios/probes               those of one area\n  \
    cargo xtask lab run --filter eventfd --jobs 1 -v   by name, with every step and expectation\n  \
    cargo xtask lab run --kernel '>=6.1'               on every plain kernel from 6.1 on\n  \
    cargo xtask lab run --kernel-tree ~/linux          on a kernel tree of yours\n  \
    cargo xtask lab run --rerun-failed                 what failed the last time\n  \
    cargo xtask lab run probes/remove --repeat 50      how often does it pass?\n  \
    cargo xtask lab run probes/remove --until-fail     until it does not\n  \
    cargo xtask lab run --shard 2/5 --times nightly/   one machine of five\n\n\
    Results go to results/<time>-<kernel>/, and results/latest points at them.\n\n\
    Exit codes: 0 all passed (unsupported and known bugs allowed), 1 at least one scenario failed, 2 usage or an \
    invalid file, 3 the lab itself could not do its work.")]
pub(crate) struct Run {
    /// Scenario files, directories of them, or names such as probes/paths [default: scenarios/]
    #[arg(add = complete::scenarios())]
    paths: Vec<PathBuf>,
    /// A kernel of kernels/*.yaml, `all`, or plain versions such as '>=6.1'; may be given several
    /// times [default: 6.12]
    #[arg(long = "kernel", value_name = "NAME", add = complete::kernels())]
    kernels: Vec<String>,
    /// Build the kernel from this tree instead of its own source
    #[arg(long, value_name = "PATH")]
    kernel_tree: Option<PathBuf>,
    /// Only scenarios whose name matches this regular expression
    #[arg(long, value_name = "RE")]
    filter: Option<Regex>,
    /// Only what failed in results/latest, on the kernels it failed on
    #[arg(long, conflicts_with = "shard")]
    rerun_failed: bool,
    /// Only part I of N, split so that all take about as long by --times; the same everywhere
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Results of an earlier run, or of its shards: how long scenarios take, for --shard; without it all
    /// count the same. May be given several times
    #[arg(long, value_name = "RESULTS", requires = "shard")]
    times: Vec<PathBuf>,
    /// How many machines run at once [default: two a CPU, since half of a scenario is waiting]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    /// Run everything N times and show how often each scenario passes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    repeat: Option<u32>,
    /// Repeat until something fails, or --repeat N times; of passes only the first keeps its files
    #[arg(long)]
    until_fail: bool,
    /// Start scenarios in an order that SEED decides: a number, or `random`, which shows the number
    #[arg(long, value_name = "SEED", value_parser = clap::builder::NonEmptyStringValueParser::new().try_map(seed))]
    shuffle: Option<u64>,
    /// Where results go [default: results/, or FTRACE_LAB_RESULTS]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Start no further scenario once one has failed
    #[arg(long)]
    fail_fast: bool,
    /// Show steps and expectations that held, too
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    setup: Setup,
}

fn seed(text: String) -> Result<u64, std::num::ParseIntError> {
    if text == "random" { Ok(now_micros()) } else { text.parse() }
}

impl Run {
    pub(crate) fn run(self) -> Result<u8> {
        let progress = Progress::new();
        // Before anything is built: a mistake in a scenario should not cost a kernel build.
        let (selection, part) = self.selection(&progress)?;
        let (shard, cases) = part.unzip();
        if let Some(seed) = self.shuffle {
            println!("shuffled by --shuffle {seed}");
        }
        if let Some(shard) = &shard {
            println!("shard {shard}: {} to run", selection.cases.len());
        }
        if selection.cases.is_empty() {
            println!("nothing to run");
            return Ok(exit::SUCCESS);
        }
        let cache = self.setup.ensure(Need::Run, &progress)?;
        let options = Options {
            root: root().to_owned(),
            selection,
            kernel_tree: self.kernel_tree.clone(),
            jobs: self.jobs.map_or_else(default_jobs, usize::from),
            results: self.results(),
            rounds: self.rounds(),
            fail_fast: self.fail_fast || self.until_fail,
            forget_passes: self.until_fail,
            shuffle: self.shuffle,
            shard,
            cases,
        };
        let prepared = prepare(&cache, &options, &progress)?;
        let terminal = Terminal::new(self.verbose);
        let mut rates = Rates::default();
        let ran = run(&prepared, &options, &progress, |result, run| {
            rates.add(result, run);
            progress.suspend(|| print!("{}", terminal.result(result, run)));
        });
        // An endless run is ended by Ctrl-C, and its rates are what it was for.
        if options.rounds != Rounds::One && !rates.is_empty() {
            print!("\n{rates}");
            show_flakes(&rates);
        }
        let (results, directory) = ran?;
        println!("{}\nresults: {}", summary(&results), directory.display());
        Ok(code(&results))
    }

    fn results(&self) -> PathBuf {
        self.results.clone().unwrap_or_else(results)
    }

    fn rounds(&self) -> Rounds {
        match (self.repeat, self.until_fail) {
            (Some(count), _) => Rounds::Count(count),
            (None, true) => Rounds::Endless,
            (None, false) => Rounds::One,
        }
    }

    /// What to run, and which part of which split it is, with the count of cases of the whole.
    fn selection(&self, progress: &Progress) -> Result<(Selection, Option<(String, usize)>)> {
        let (scenarios, left_out) = wanted(&self.paths, self.filter.as_ref(), self.rerun_failed)?;
        if left_out > 0 {
            progress
                .line(format!("{left_out} scenarios run only where they are named; `lab list` shows which"));
        }
        if let Some((outer, inner)) = nested(&scenarios) {
            let message =
                format!("`{outer}` and `{inner}` cannot both run: rename one, their files would mix");
            return Err(Usage(message).into());
        }
        let failed = if self.rerun_failed { Some(failed(&self.results().join("latest"))?) } else { None };
        let mut kernels = kernel::choose(root(), &self.kernels)?;
        if let (true, Some(failed)) = (kernels.is_empty(), &failed) {
            let named: BTreeSet<_> = failed.iter().map(|(kernel, _)| kernel.clone()).collect();
            kernels = named.into_iter().collect();
        } else if kernels.is_empty() {
            kernels.push(kernel::DEFAULT.to_owned());
        }
        let mut selection = Selection::all(kernels, scenarios);
        if let Some(failed) = &failed {
            for (kernel, name) in selection.keep(failed) {
                progress.line(format!("{name} failed on {kernel}, too, and is not among what is asked for"));
            }
            if selection.cases.is_empty() && !failed.is_empty() {
                return Err(Usage("nothing that failed is among what is asked for".into()).into());
            }
        }
        let Some(shard) = self.shard else { return Ok((selection, None)) };
        let cases = selection.cases.len();
        let split = selection.keep_shard(shard, &Times::of_results(&self.times)?);
        Ok((selection, Some((format!("{shard} of {split}"), cases))))
    }
}

/// Of each scenario that passed and failed, where a failure's trace parts from a pass's.
fn show_flakes(rates: &Rates) {
    let compared = |passed: &Path, failed: &Path| {
        let (passed, failed) = (Trace::open(&passed.join(TRACE))?, Trace::open(&failed.join(TRACE))?);
        let wants: [fn(&Event<'_>) -> bool; 2] = [|event| !diff::is_agents(event); 2];
        diff::compare([&passed, &failed], wants)
    };
    for flake in rates.flakes() {
        println!("\n{} on {}: A passed, B failed", flake.name, flake.kernel);
        match compared(&flake.passed, &flake.failed) {
            Ok(comparison) => print!("{}", side_by_side(&comparison)),
            // The rates stand without it.
            Err(error) => println!("their traces cannot be compared: {error:#}"),
        }
        println!("again: cargo xtask lab trace diff {} {}", flake.passed.display(), flake.failed.display());
    }
}

/// What a run with these arguments is of, and how many scenarios it leaves out since nobody named
/// them; `all` leaves out none.
pub(crate) fn wanted(
    paths: &[PathBuf],
    filter: Option<&Regex>,
    all: bool,
) -> Result<(Vec<(Found, Scenario)>, usize)> {
    let mut scenarios = selected(paths, filter)?;
    let found = scenarios.len();
    if paths.is_empty() && filter.is_none() && !all {
        scenarios.retain(|(_, scenario)| !scenario.opt_in);
    }
    let left_out = found - scenarios.len();
    Ok((scenarios, left_out))
}

/// The scenarios below `paths` that match, parsed. None at all is an error: nothing would be tested.
pub(crate) fn selected(paths: &[PathBuf], filter: Option<&Regex>) -> Result<Vec<(Found, Scenario)>> {
    let mut scenarios = scenario::select(&scenarios(), paths)?;
    scenarios.retain(|(found, _)| filter.is_none_or(|filter| filter.is_match(&found.name)));
    if scenarios.is_empty() {
        return Err(Usage("no scenario matches; `cargo xtask lab list` shows what there is".into()).into());
    }
    Ok(scenarios)
}

fn code(results: &lab::report::Results) -> u8 {
    let statuses = || results.scenarios.iter().map(|scenario| scenario.status);
    if statuses().any(|status| status == lab::verdict::Status::LabError) {
        exit::LAB
    } else if !statuses().all(lab::verdict::Status::is_good) {
        exit::FAILED
    } else {
        exit::SUCCESS
    }
}
