//! `cargo xtask lab run`

use crate::{Usage, exit, root, setup::Setup};
use anyhow::Result;
use clap::Args;
use lab::{
    host::prerequisites::Need,
    kernel,
    progress::Progress,
    report::{Terminal, summary},
    run::{Options, prepare, run},
    scenario::{self, Found, Scenario},
};
use regex::Regex;
use std::{path::PathBuf, thread};

/// Build what is missing, boot each kernel and run scenarios on it
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab run --yes                          every scenario on the default kernel\n  \
    cargo xtask lab run scenarios/probes               those of one area\n  \
    cargo xtask lab run --filter eventfd --jobs 1 -v   by name, with every step and expectation\n  \
    cargo xtask lab run --kernel-tree ~/linux          on a kernel tree of yours\n\n\
    Results go to results/<time>-<kernel>/, and results/latest points at them.")]
pub(crate) struct Run {
    /// Scenario files or directories of them [default: scenarios/]
    paths: Vec<PathBuf>,
    /// A kernel of kernels/*.yaml; may be given several times
    #[arg(long = "kernel", value_name = "NAME", default_value = kernel::DEFAULT)]
    kernels: Vec<String>,
    /// Build the kernel from this tree instead of its own source
    #[arg(long, value_name = "PATH")]
    kernel_tree: Option<PathBuf>,
    /// Only scenarios whose name matches this regular expression
    #[arg(long, value_name = "RE")]
    filter: Option<Regex>,
    /// How many machines run at once [default: one a CPU]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    /// Where results go [default: results/]
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

impl Run {
    pub(crate) fn run(self) -> Result<u8> {
        let progress = Progress::new();
        // Before anything is built: a mistake in a scenario should not cost a kernel build.
        let scenarios = selected(&self.paths, self.filter.as_ref())?;
        let cache = self.setup.ensure(Need::Run, &progress)?;
        let options = Options {
            root: root().to_owned(),
            kernels: self.kernels,
            kernel_tree: self.kernel_tree,
            scenarios,
            jobs: self
                .jobs
                .map_or_else(|| thread::available_parallelism().map_or(1, usize::from), usize::from),
            results: self.results.unwrap_or_else(|| root().join("results")),
            fail_fast: self.fail_fast,
        };
        let prepared = prepare(&cache, &options, &progress)?;
        let terminal = Terminal::new(self.verbose);
        let (results, directory) = run(&prepared, &options, &progress, |result, run| {
            progress.suspend(|| print!("{}", terminal.result(result, run)));
        })?;
        println!("{}\nresults: {}", summary(&results), directory.display());
        Ok(code(&results))
    }
}

/// The scenarios below `paths` that match, parsed. None at all is an error: nothing would be tested.
pub(crate) fn selected(paths: &[PathBuf], filter: Option<&Regex>) -> Result<Vec<(Found, Scenario)>> {
    let found = scenario::find(&root().join("scenarios"), paths)?;
    let wanted = found.into_iter().filter(|found| filter.is_none_or(|filter| filter.is_match(&found.name)));
    let scenarios = wanted
        .map(|found| {
            let scenario = Scenario::load(&found.path)?;
            Ok((found, scenario))
        })
        .collect::<Result<Vec<_>>>()?;
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
