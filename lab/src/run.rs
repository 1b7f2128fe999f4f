//! Scenarios × kernels → [`Results`]: who runs when, and what is stored.
//!
//! Each scenario gets a machine of its own. A result is stored the moment it is there, so a run
//! that is killed leaves everything it had found; `results.json` is replaced as a whole each time.

mod ahead;
mod boot;
mod case;
pub mod fleet;
pub mod known;
mod reader;
pub mod schedule;
pub mod select;
pub mod shard;
mod store;
mod symbols;
pub mod times;

use crate::{
    cache::Cache,
    guest::{self, Guest},
    host::interrupt,
    kernel::{self, Kernel},
    machine::{MachineSpec, Snapshots},
    plan::unmet,
    probe,
    progress::{Progress, Running, Task},
    report::{self, Host, Qemu, Results, RunDirectory, ScenarioResult},
    repro,
    verdict::Status,
};
use ahead::{Ahead, Kind};
use anyhow::{Context, Result, bail};
pub(crate) use boot::boot_userland;
pub use boot::machine_spec;
pub(crate) use boot::machine_with;
pub use case::one;
use case::{lab_error, needs_hooks, repeat};
use schedule::{Case, Rounds, Schedule, Turn, Weight};
use select::Selection;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread,
    time::Duration,
};
use store::{Store, empty_results};
pub(crate) use symbols::CAT_SOURCE;
use times::Times;

/// What to run, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The repository.
    pub root: PathBuf,
    /// The scenarios and the kernels they run on.
    pub selection: Selection,
    /// A local kernel tree that takes the place of the kernels' own source.
    pub kernel_tree: Option<PathBuf>,
    /// How many machines at once.
    pub jobs: usize,
    /// Where results go; each run makes a directory there.
    pub results: PathBuf,
    /// How often each scenario runs on each kernel.
    pub rounds: Rounds,
    /// Start nothing more once a scenario has failed.
    pub fail_fast: bool,
    /// Of several passes of a scenario, keep only the files of the first. A run without end would
    /// fill the disk with what nobody asks for.
    pub forget_passes: bool,
    /// Start scenarios in an order that this seed decides.
    pub shuffle: Option<u64>,
    /// The part of a larger run that the selection is, for the results: `2/5 of 4f2a91c0`.
    pub shard: Option<String>,
    /// How many cases that larger run has.
    pub cases: Option<usize>,
}

/// Everything that is built before the first machine starts.
pub struct Prepared {
    /// The kernels, in the order of the selection.
    pub kernels: Vec<Kernel>,
    /// What runs in the guest.
    pub guest: Guest,
    /// Booted machines.
    pub snapshots: Snapshots,
    /// Where the times of earlier runs are.
    pub cache: Cache,
}

impl Prepared {
    /// Takes this kernel in place of those that are there.
    pub fn replace_kernels(&mut self, kernel: Kernel, progress: &Progress) {
        symbols::learn(&kernel, &self.guest, &self.snapshots, progress);
        self.kernels = vec![kernel];
    }
}

/// Builds what is not built yet.
pub fn prepare(cache: &Cache, options: &Options, progress: &Progress) -> Result<Prepared> {
    let tree = options.kernel_tree.as_deref();
    let kernels = options.selection.kernels.iter();
    let kernels = kernels.map(|name| kernel::build(cache, &options.root, name, tree, progress));
    let kernels: Vec<Kernel> = kernels.collect::<Result<_>>()?;
    let guest = guest::build(cache, &options.root, progress)?;
    let snapshots = Snapshots::new(cache, progress)?;
    kernels.iter().for_each(|kernel| symbols::learn(kernel, &guest, &snapshots, progress));
    reader::fetch(options.selection.scenarios.iter().map(|(_, scenario)| scenario), cache, progress);
    Ok(Prepared { kernels, guest, snapshots, cache: cache.clone() })
}

/// Runs everything. `finished` sees each result in the order of the list, as soon as it and all
/// before it are there. Gives back the results and the directory they are in; `latest` points at
/// it, unless the lab was interrupted, which is an error.
pub fn run(
    prepared: &Prepared,
    options: &Options,
    progress: &Progress,
    finished: impl FnMut(&ScenarioResult, &Path) + Send,
) -> Result<(Results, PathBuf)> {
    let run_directory = RunDirectory::create(&options.results, &options.selection.kernels)?;
    let directory = run_directory.path().to_owned();
    let empty = empty_results(prepared, options)?;
    let work = Work {
        prepared,
        options,
        schedule: schedule(prepared, options),
        qemu: empty.qemu.clone(),
        host: empty.host.clone(),
        store: Mutex::new(Store::new(empty, &directory, finished)),
        ahead: Ahead::new(prepared, &directory),
        directory: &directory,
        passed: Mutex::default(),
        next: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
        running: Running::default(),
        progress,
    };
    let done = work.all();
    let restored_ahead = work.ahead.taken();
    let store = work.store.into_inner().map_err(|_| anyhow::anyhow!("a worker panicked"))?;
    // What else was found before an error is in `results.json` already.
    done?;
    let interrupted = interrupt::check();
    let results = store.finish(interrupted.is_ok(), restored_ahead)?;
    if let Err(error) = Times::learn(&prepared.cache, &results.scenarios) {
        progress.line(format!("warning: cannot keep how long scenarios took: {error:#}"));
    }
    interrupted?;
    report::point_latest(&options.results, &directory)?;
    Ok((results, directory))
}

fn schedule(prepared: &Prepared, options: &Options) -> Schedule {
    let selection = &options.selection;
    if let Some(seed) = options.shuffle {
        return Schedule::shuffled(selection.cases.len(), seed, options.rounds);
    }
    let times = Times::load(&prepared.cache);
    let weight = |&case: &Case| {
        let (kernel, scenario) = selection.names(case);
        match selection.scenarios[case.scenario].1.alone {
            true => Weight::Alone,
            false => times.get(kernel, scenario).map_or(Weight::Unknown, Weight::Took),
        }
    };
    Schedule::heaviest_first(&selection.cases.iter().map(weight).collect::<Vec<_>>(), options.rounds)
}

/// A run in progress, as its workers share it.
struct Work<'a, F> {
    prepared: &'a Prepared,
    options: &'a Options,
    schedule: Schedule,
    qemu: Qemu,
    host: Host,
    store: Mutex<Store<F>>,
    ahead: Ahead<'a>,
    directory: &'a Path,
    /// Cases that have passed once and left their files.
    passed: Mutex<BTreeSet<usize>>,
    next: AtomicUsize,
    stop: AtomicBool,
    running: Running,
    progress: &'a Progress,
}

impl<F: FnMut(&ScenarioResult, &Path) + Send> Work<'_, F> {
    fn all(&self) -> Result<()> {
        let turns = self.schedule.turns();
        let task = self.progress.task("running scenarios", turns.map(|turns| turns as u64));
        let jobs = self.options.jobs.clamp(1, turns.unwrap_or(usize::MAX).max(1));
        thread::scope(|scope| {
            // Until all workers are done.
            let _restorer = ahead::pays(jobs, cpus()).then(|| self.ahead.start(scope));
            let worker = || {
                let done = self.some(&task);
                // Without a place for results there is no point in going on.
                if done.is_err() {
                    self.stop.store(true, Ordering::SeqCst);
                }
                done
            };
            // Until it is dropped.
            let (_over, ended) = channel();
            scope.spawn(|| self.tell_slow(&task, ended));
            let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(worker)).collect();
            let ends = workers.into_iter().map(|worker| match worker.join() {
                Ok(result) => result,
                Err(_) => bail!("a worker panicked"),
            });
            // All are waited for before the first error is told.
            ends.collect::<Vec<_>>().into_iter().collect()
        })
    }

    /// Names what is slow while it is, once a second, until the run has `ended`.
    fn tell_slow(&self, task: &Task, ended: Receiver<()>) {
        while ended.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
            task.slow(self.running.slow());
        }
    }

    /// What one worker does: turn after turn, until there is none or something ends the run.
    fn some(&self, task: &Task) -> Result<()> {
        loop {
            if self.stop.load(Ordering::SeqCst) || interrupt::check().is_err() {
                return Ok(());
            }
            let Some(turn) = self.schedule.turn(self.next.fetch_add(1, Ordering::SeqCst)) else {
                return Ok(());
            };
            let case = self.options.selection.cases[turn.case];
            let (kernel, scenario) = self.options.selection.names(case);
            self.running.begin(turn.place, format!("{scenario} on {kernel}"));
            let result = self.one(turn);
            self.running.end(turn.place);
            let Some(result) = result? else { return Ok(()) };
            if self.options.fail_fast && !result.status.is_good() {
                self.stop.store(true, Ordering::SeqCst);
            }
            let mut store = self.store.lock().map_err(|_| anyhow::anyhow!("a worker panicked"))?;
            store.add(turn.place, result)?;
            task.set(store.count() as u64);
        }
    }

    /// One turn; nothing, if the lab was told to stop, for then it has no verdict.
    fn one(&self, turn: Turn) -> Result<Option<ScenarioResult>> {
        let case = self.options.selection.cases[turn.case];
        let kernel = &self.prepared.kernels[case.kernel];
        let (found, scenario) = &self.options.selection.scenarios[case.scenario];
        if self.restored(turn).is_none() {
            self.order_next();
        }
        let machine = |spec: &MachineSpec, place: &Path| {
            let kind = Kind { kernel: case.kernel, hooks: needs_hooks(scenario) };
            let machine = self.ahead.machine(kind, spec, place);
            // Not before: a machine's start is measured, and is not to share the host with another's.
            self.order_next();
            machine
        };
        let guest = &self.prepared.guest;
        let result = repeat(kernel, guest, machine, found, scenario, turn.repeat, self.directory);
        if interrupt::check().is_err() {
            return Ok(None);
        }
        // Anything else that went wrong is a verdict.
        let result = result.unwrap_or_else(|error| lab_error(kernel, found, turn.repeat, &error));
        let mut result = known::in_view_of_bugs(&kernel.spec, result);
        if self.options.forget_passes && result.status == Status::Passed {
            let mut passed = self.passed.lock().map_err(|_| anyhow::anyhow!("a worker panicked"))?;
            if !passed.insert(turn.case) {
                let directory = self.directory.join(std::mem::take(&mut result.directory));
                fs::remove_dir_all(&directory)
                    .with_context(|| format!("cannot remove `{}`", directory.display()))?;
            }
        }
        self.leave_reproducer(turn, &mut result);
        Ok(Some(result))
    }

    /// Has a failure leave all that is needed to see it again. Without that it is a failure all the same.
    fn leave_reproducer(&self, turn: Turn, result: &mut ScenarioResult) {
        if result.directory.is_empty() {
            return;
        }
        let case = self.options.selection.cases[turn.case];
        let (found, scenario) = &self.options.selection.scenarios[case.scenario];
        let about = repro::Circumstances {
            root: &self.options.root,
            tree: self.options.kernel_tree.is_some(),
            qemu: &self.qemu,
            host: &self.host,
            shuffle: self.options.shuffle,
        };
        let place = self.directory.join(&result.directory);
        match repro::leave(&about, &self.prepared.kernels[case.kernel], found, scenario, result, &place) {
            Ok(name) => result.reproducer = name,
            Err(error) => result.notes.push(format!("there is no {}: {error:#}", repro::FILE)),
        }
    }

    /// Has a machine restored for the next turn that takes one.
    fn order_next(&self) {
        let next = self.next.load(Ordering::SeqCst);
        if let Some(kind) = ahead::coming(&self.schedule, next, |turn| self.restored(turn)) {
            self.ahead.order(kind);
        }
    }

    /// The kind of machine of a turn that takes a restored one.
    fn restored(&self, turn: Turn) -> Option<Kind> {
        let case = self.options.selection.cases[turn.case];
        let (_, scenario) = &self.options.selection.scenarios[case.scenario];
        let restored = scenario.is_restored()
            && unmet(scenario, &self.prepared.kernels[case.kernel]).is_none()
            && matches!(probe::fit(scenario, &self.prepared.kernels[case.kernel]), Ok(Ok(_)));
        restored.then(|| Kind { kernel: case.kernel, hooks: needs_hooks(scenario) })
    }
}

/// How many machines run at once unless someone says otherwise. Half of a scenario is waiting, for RCU and
/// for timers above all: 245 scenarios on two cores took 75 s by 2 jobs, 64 s by 3, 55 s by 4, and no less
/// by 6.
pub fn default_jobs() -> usize {
    2 * cpus()
}

/// Those that the lab may use.
fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
