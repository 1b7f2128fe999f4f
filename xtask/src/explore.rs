//! `cargo xtask lab explore`

use crate::{complete, exit, results, root, setup::Setup};
use anyhow::Result;
use clap::Args;
use fs_err as fs;
use lab::{
    Lab,
    explore::{Finding, Hunt, Limits, Told},
    host::{interrupt, prerequisites::Need},
    kernel::DEFAULT,
    results::{Rates, RunDirectory, now_micros},
    run::{
        Event, Options, Prepared, Reporter, default_jobs, kernels, prepare_on, run, schedule::Rounds,
        select::Selection,
    },
    scenario::Scenario,
    words::printable,
};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// The number of runs of each finding on each kernel.
const RUNS: u32 = 20;

/// Try random operations on tracing, and keep what contradicts a model of them
///
/// Makes sequences of operations that are legal or nearly so: probe events of all kinds with siblings, filters
/// and histograms, in tracing instances; hooks with and without IPMODIFY; the function tracer. A model
/// predicts the errno of each, and all that the kernel must show afterwards: what is listed, counted and
/// recorded, and the text of the probed functions. Eight sequences share a machine; each removes what it made,
/// and must find everything as it was before.
///
/// What contradicts the model is minimized, and becomes a scenario in results/<time>-explore-<kernel>/found/,
/// with its reproducer beside the results of its runs.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab explore --minutes 10                        the default kernel\n  \
    cargo xtask lab explore --kernel-tree ~/linux --seed 7      your kernel tree, with the sequences of seed 7\n  \
    cargo xtask lab explore --kernel 7.2 --also 6.12 --also 5.10    what is found on 7.2 also runs on others\n\n\
    Ctrl-C ends the search; what was found is kept.\n\n\
    Exit codes: 0 nothing was found, 1 something was, 2 usage error, 3 the lab itself failed.")]
pub(crate) struct Explore {
    /// The kernel, one of kernels/*.yaml
    #[arg(long, value_name = "NAME", default_value = DEFAULT, add = complete::kernels())]
    kernel: String,
    /// Build the kernel from this tree instead of its own source
    #[arg(long, value_name = "PATH")]
    kernel_tree: Option<PathBuf>,
    /// Run each finding on this kernel, too (repeatable)
    #[arg(long, value_name = "NAME", add = complete::kernels())]
    also: Vec<String>,
    /// Stop after this many minutes
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    minutes: u64,
    /// Stop after this many sequences
    #[arg(long, value_name = "N")]
    sequences: Option<u64>,
    /// Stop at the first finding, and do not run it again
    #[arg(long, conflicts_with = "also")]
    first: bool,
    /// Make the sequences of this seed [default: a new one, which is printed]
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// Number of machines to run at once [default: two per CPU]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    /// Directory for results [default: FTRACE_LAB_RESULTS, or results/]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    #[command(flatten)]
    setup: Setup,
}

impl Explore {
    pub(crate) fn run(self) -> Result<u8> {
        let lab = self.setup.ensure(Need::Run)?;
        let results = self.results.clone().unwrap_or_else(results);
        let prepared = self.prepare(&lab, &results)?;
        let directory = RunDirectory::create(&results, &[format!("explore-{}", self.kernel)])?;
        let seed = self.seed.unwrap_or_else(now_micros);
        println!("exploring {} for {} min with seed {seed}", self.kernel, self.minutes);
        let limits = Limits {
            time: Duration::from_secs(self.minutes * 60),
            sequences: self.sequences,
            first: self.first,
            jobs: self.jobs.map_or_else(default_jobs, usize::from),
        };
        let task = lab.progress.task("exploring", None);
        let tell = |told: Told<'_>| match told {
            Told::Progress { sequences, pairs, findings } => {
                task.set(sequences);
                task.note(format!("{pairs} pairs of a state and an operation, {findings} found"));
            }
            Told::Found(finding) => lab.progress.suspend(|| print(finding)),
            Told::Gone(reason) => {
                lab.progress
                    .line(format!("did not recur on a pristine machine: {}", printable(first(reason))));
            }
        };
        let started = std::time::Instant::now();
        let (findings, sequences) = Hunt::new(&prepared, directory.path(), (seed, limits), tell)?.run()?;
        let each = sequences as f64 / started.elapsed().as_secs_f64();
        println!("{sequences} sequences, {each:.1} a second; {} found", findings.len());
        if findings.is_empty() {
            fs::remove_dir_all(directory.path())?;
            interrupt::check()?;
            return Ok(exit::SUCCESS);
        }
        println!("scenarios: {}", directory.path().join("found").display());
        interrupt::check()?;
        if !self.first {
            self.repeat(&lab, prepared, &findings, directory.path())?;
        }
        Ok(exit::FAILED)
    }

    fn options(&self, kernels: Vec<String>, findings: &[Finding], results: &Path) -> Result<Options> {
        let load = |finding: &Finding| Ok((finding.file.clone(), Scenario::load(&finding.file.path)?));
        let scenarios = findings.iter().map(load).collect::<Result<Vec<_>>>()?;
        let options = Options::new(root(), Selection::all(kernels, scenarios), results);
        Ok(Options { kernel_tree: self.kernel_tree.clone(), rounds: Rounds::Count(RUNS), ..options })
    }

    fn prepare(&self, lab: &Lab, results: &Path) -> Result<Prepared> {
        let options = self.options(vec![self.kernel.clone()], &[], results)?;
        let built = kernels(lab, &options.selection.kernels, self.kernel_tree.as_deref())?;
        prepare_on(lab, &options, built)
    }

    /// Runs each finding several times, on each kernel, and prints how often it fails there.
    fn repeat(&self, lab: &Lab, prepared: Prepared, findings: &[Finding], directory: &Path) -> Result<()> {
        let also = kernels(lab, &self.also, None)?;
        let built = prepared.kernels.into_iter().chain(also).collect::<Vec<_>>();
        let names = built.iter().map(|kernel| kernel.name.clone()).collect();
        let options = self.options(names, findings, directory)?;
        let prepared = prepare_on(lab, &options, built)?;
        let mut reporter = Reporter::new(&lab.progress);
        let mut rates = Rates::default();
        let (_, place) = run(&prepared, &options, |event| {
            reporter.draw(&event);
            if let Event::Result { result, directory } = event {
                rates.add(result, directory);
            }
        })?;
        println!("{rates}results and reproducers: {}", place.display());
        Ok(())
    }
}

fn print(finding: &Finding) {
    let (before, after) = finding.operations;
    let reason = printable(&finding.reason);
    println!("found {}, {after} of {before} operations: {reason}", finding.file.path.display());
}

fn first(reason: &str) -> &str {
    reason.lines().next().unwrap_or_default()
}
