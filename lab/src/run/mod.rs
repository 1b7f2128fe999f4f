//! Scenarios × kernels → [`Results`]: schedules and runs the scenarios, and stores their results.
//!
//! Each scenario gets its own machine. Each result is stored immediately, so a killed run keeps its
//! results so far; `results.json` is replaced atomically.

mod ahead;
mod attempt;
mod event;
pub mod known;
mod measure;
mod reporter;
pub mod schedule;
pub mod select;
pub mod shard;
mod store;
mod symbols;
mod work;

pub use attempt::Attempt;
pub use event::Event;
pub use reporter::Reporter;
pub(crate) use symbols::CAT_SOURCE;

use crate::{
    context::Lab,
    fit,
    guest::{self, Guest},
    host::interrupt,
    kernel::{self, Kernel},
    machine::{self, Snapshots},
    progress::Progress,
    results::{self, PartOptions, Results, RunDirectory, Times},
};
use anyhow::{Result, bail};
use schedule::Rounds;
use select::Selection;
use std::{
    path::{Path, PathBuf},
    thread,
};
use store::empty_results;
use work::Work;

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The root of the checkout.
    pub root: PathBuf,
    /// The scenarios and the kernels they run on.
    pub selection: Selection,
    /// A local kernel tree that replaces the source of the kernels.
    pub kernel_tree: Option<PathBuf>,
    /// The number of machines to run at once.
    pub jobs: usize,
    /// The directory of results, in which each run creates a directory.
    pub results: PathBuf,
    /// The number of runs of each scenario on each kernel.
    pub rounds: Rounds,
    /// The number of times that a failure is run again at once, until it passes.
    pub retries: u32,
    /// Start no more scenarios after a failure.
    pub fail_fast: bool,
    /// Keep only the files of each scenario's first pass. Those of all passes of an endless run would
    /// fill the disk.
    pub forget_passes: bool,
    /// Measure which code each scenario runs.
    pub coverage: bool,
    /// Start scenarios in a random order with this seed.
    pub shuffle: Option<u64>,
    /// The part of a larger run that is selected.
    pub part: Option<Part>,
}

impl Options {
    /// Returns options that run each case of a selection once, with results below `results`.
    pub fn new(root: &Path, selection: Selection, results: &Path) -> Options {
        Options {
            root: root.to_owned(),
            selection,
            kernel_tree: None,
            jobs: default_jobs(),
            results: results.to_owned(),
            rounds: Rounds::One,
            retries: 0,
            fail_fast: false,
            forget_passes: false,
            coverage: false,
            shuffle: None,
            part: None,
        }
    }
}

/// A part of a larger run, for its results.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its name: `2/5 of 4f2a91c0`.
    pub name: String,
    /// The number of cases of the larger run.
    pub cases: usize,
    /// What the larger run selects.
    pub options: PartOptions,
}

/// Everything that is built before the first machine starts.
pub struct Prepared {
    /// The kernels, in the order of the selection.
    pub kernels: Vec<Kernel>,
    /// The agent, modules and programs for the guest.
    pub guest: Guest,
    /// Snapshots of booted machines.
    pub snapshots: Snapshots,
    /// The lab that built it.
    pub lab: Lab,
}

impl Prepared {
    /// Makes the CPUs of its machines take turns if this host's QEMU may miss patched code otherwise.
    ///
    /// # Errors
    /// QEMU's version cannot be read.
    pub fn miss_no_patches(&mut self) -> Result<()> {
        self.guest.in_turn = machine::misses_patches()?;
        Ok(())
    }

    /// Replaces all kernels with this one.
    pub fn replace_kernels(&mut self, kernel: Kernel, progress: &Progress) {
        symbols::learn(&kernel, &self.guest, &self.snapshots, progress);
        self.kernels = vec![kernel];
    }
}

/// Builds what is not built yet.
pub fn prepare(lab: &Lab, options: &Options) -> Result<Prepared> {
    let kernels = kernels(lab, &options.selection.kernels, options.kernel_tree.as_deref())?;
    prepare_on(lab, options, kernels)
}

/// Builds the kernels of these names. `tree`, if given, replaces their source.
pub fn kernels(lab: &Lab, names: &[String], tree: Option<&Path>) -> Result<Vec<Kernel>> {
    names.iter().map(|name| kernel::build(lab, name, tree)).collect()
}

/// Builds what is not built yet, given the kernels of the selection.
pub fn prepare_on(lab: &Lab, options: &Options, kernels: Vec<Kernel>) -> Result<Prepared> {
    let scenarios = || options.selection.scenarios.iter().map(|(_, scenario)| scenario);
    let guest = machine::measured(lab, guest::build(lab)?, options.coverage, scenarios())?;
    let snapshots = Snapshots::new(lab)?;
    kernels.iter().for_each(|kernel| symbols::learn(kernel, &guest, &snapshots, &lab.progress));
    fit::prepare_host(lab, scenarios());
    Ok(Prepared { kernels, guest, snapshots, lab: lab.clone() })
}

/// Runs everything, and reports each [`Event`] as it happens. Returns the results and their directory, and
/// makes `latest` point at it. An interrupted run is an error, and `latest` stays unchanged.
pub fn run(
    prepared: &Prepared,
    options: &Options,
    report: impl FnMut(Event<'_>) + Send,
) -> Result<(Results, PathBuf)> {
    let run_directory = RunDirectory::create(&options.results, &options.selection.kernels)?;
    let directory = run_directory.path().to_owned();
    let work = Work::new(prepared, options, &directory, empty_results(prepared, options)?, report);
    let (measured, done) = thread::scope(|scope| {
        let measured = scope.spawn(|| measure::measure(prepared, &directory));
        let done = work.all();
        (measured.join(), done)
    });
    let (store, restored_ahead, mut report) = work.end()?;
    // After an error, the results so far are already in `results.json`.
    done?;
    let interrupted = interrupt::check();
    // After a failure, `fail_fast` leaves the rest out.
    let planned = options.rounds.runs(options.selection.cases.len());
    let all = planned.is_none_or(|planned| store.turns() == planned);
    let results = store.finish(interrupted.is_ok() && all, restored_ahead)?;
    if let Err(error) = Times::learn(&prepared.lab.cache, &results.scenarios) {
        report(Event::Warning(format!("cannot store the times of scenarios: {error:#}")));
    }
    interrupted?;
    measured.unwrap_or_else(|_| bail!("the measurement of an empty scenario panicked"))?;
    results::point_latest(&options.results, &directory)?;
    Ok((results, directory))
}

/// Returns the default number of machines to run at once. A scenario waits half the time, mostly for RCU
/// and timers: 245 scenarios on two cores took 75 s with 2 jobs, 64 s with 3, 55 s with 4, and no less
/// with 6.
pub fn default_jobs() -> usize {
    2 * cpus()
}

/// Returns the number of CPUs that the lab may use.
pub(crate) fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
