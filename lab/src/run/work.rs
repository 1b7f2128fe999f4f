//! A run in progress, shared by its workers.

use super::{
    Event, Options, Prepared,
    ahead::{self, MachineKind, RestoreAhead},
    attempt::{Attempt, Fitted, lab_error},
    cpus, known,
    schedule::{Case, Schedule, ScheduledRun, Weight},
    store::Store,
};
use crate::{
    fit,
    host::interrupt,
    machine::{MachineSpec, restores_hooks},
    reproducer,
    results::{Host, Qemu, Results, ScenarioResult, Status, Times},
};
use anyhow::{Result, anyhow, bail};
use fs_err as fs;
use std::{
    collections::BTreeSet,
    path::Path,
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread,
    time::Duration,
};

/// A run in progress.
pub(super) struct Work<'a, F> {
    prepared: &'a Prepared,
    options: &'a Options,
    schedule: Schedule,
    /// For each case, whether its kernel and this host can run it; determined once.
    fitted: Vec<OnceLock<Fitted<'a>>>,
    qemu: Qemu,
    host: Host,
    store: Mutex<Store>,
    ahead: RestoreAhead<'a>,
    directory: &'a Path,
    /// The cases that have passed; the files of their first pass are kept.
    passed: Mutex<BTreeSet<usize>>,
    next: AtomicUsize,
    stop: AtomicBool,
    report: Mutex<F>,
}

impl<'a, F: FnMut(Event<'_>) + Send> Work<'a, F> {
    /// A run that has not started, with `empty` results.
    pub(super) fn new(
        prepared: &'a Prepared,
        options: &'a Options,
        directory: &'a Path,
        empty: Results,
        report: F,
    ) -> Work<'a, F> {
        Work {
            prepared,
            options,
            schedule: schedule(prepared, options),
            fitted: options.selection.cases.iter().map(|_| OnceLock::new()).collect(),
            qemu: empty.qemu.clone(),
            host: empty.host.clone(),
            store: Mutex::new(Store::new(empty, directory)),
            ahead: RestoreAhead::new(prepared, directory),
            directory,
            passed: Mutex::default(),
            next: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            report: Mutex::new(report),
        }
    }

    /// Runs all turns, unless something ends the run earlier.
    pub(super) fn all(&self) -> Result<()> {
        let turns = self.schedule.turns();
        self.report(Event::Started { results: turns });
        let jobs = self.options.jobs.clamp(1, turns.unwrap_or(usize::MAX).max(1));
        thread::scope(|scope| {
            // Runs until all workers are done.
            let _restorer = ahead::is_worthwhile(jobs, cpus()).then(|| self.ahead.start(scope));
            let worker = || {
                let done = self.some();
                // If results cannot be stored, nothing more is started.
                if done.is_err() {
                    self.stop.store(true, Ordering::SeqCst);
                }
                done
            };
            // The ticks end when `_over` is dropped.
            let (_over, ended) = channel();
            scope.spawn(|| self.tick(ended));
            let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(worker)).collect();
            let ends = workers.into_iter().map(|worker| match worker.join() {
                Ok(result) => result,
                Err(_) => bail!("a worker panicked"),
            });
            // Waits for all before returning the first error.
            ends.collect::<Vec<_>>().into_iter().collect()
        })
    }

    /// Ends the run: reports the remaining results. Returns the store, the number of machines that were
    /// restored ahead, and the receiver of events.
    pub(super) fn end(self) -> Result<(Store, usize, F)> {
        let restored_ahead = self.ahead.taken();
        self.report(Event::Ended);
        let Work { store, report, directory, .. } = self;
        let mut store = store.into_inner().map_err(|_| panicked())?;
        let mut report = report.into_inner().map_err(|_| panicked())?;
        store.close();
        while let Some(result) = store.next() {
            report(Event::Result { result, directory });
        }
        Ok((store, restored_ahead, report))
    }

    fn report(&self, event: Event<'_>) {
        // A receiver that panicked ends the run when its worker is joined.
        (self.report.lock().unwrap_or_else(PoisonError::into_inner))(event);
    }

    /// Reports [`Event::Tick`] once a second until the run has `ended`.
    fn tick(&self, ended: Receiver<()>) {
        while ended.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
            self.report(Event::Tick);
        }
    }

    /// Runs one turn after another, as one worker, until none is left or something ends the run.
    fn some(&self) -> Result<()> {
        loop {
            if self.stop.load(Ordering::SeqCst) || interrupt::check().is_err() {
                return Ok(());
            }
            let Some(turn) = self.schedule.turn(self.next.fetch_add(1, Ordering::SeqCst)) else {
                return Ok(());
            };
            let (kernel, scenario) = self.options.selection.names(self.case(turn));
            self.report(Event::ScenarioStarted { place: turn.place, scenario, kernel });
            if !self.turn(turn)? {
                return Ok(());
            }
            let mut store = lock(&self.store)?;
            store.end_turn(turn.place);
            let mut report = lock(&self.report)?;
            report(Event::ScenarioEnded { place: turn.place, stored: store.turns() });
            while let Some(result) = store.next() {
                report(Event::Result { result, directory: self.directory });
            }
        }
    }

    /// Runs one turn: once and, while it fails, as often as the options say. Every try is stored when it ends. Returns
    /// whether the turn has a verdict, which it has not if the lab was interrupted.
    fn turn(&self, turn: ScheduledRun) -> Result<bool> {
        for retry in 0..=self.options.retries {
            let Some(result) = self.one(turn, (retry > 0).then_some(retry))? else { return Ok(retry > 0) };
            let is_good = result.status.is_good();
            lock(&self.store)?.add(turn.place, result)?;
            if is_good {
                return Ok(true);
            }
        }
        // No try passed.
        if self.options.fail_fast {
            self.stop.store(true, Ordering::SeqCst);
        }
        Ok(true)
    }

    fn case(&self, turn: ScheduledRun) -> Case {
        self.options.selection.cases[turn.case]
    }

    /// Returns whether the case of a turn can run.
    fn fitted(&self, turn: ScheduledRun) -> &Fitted<'a> {
        let case = self.case(turn);
        let (_, scenario) = &self.options.selection.scenarios[case.scenario];
        self.fitted[turn.case].get_or_init(|| fit::fit(scenario, &self.prepared.kernels[case.kernel]))
    }

    /// Runs one try of a turn. Returns `None` if the lab was interrupted: the try then has no verdict.
    fn one(&self, turn: ScheduledRun, retry: Option<u32>) -> Result<Option<ScenarioResult>> {
        let case = self.case(turn);
        let kernel = &self.prepared.kernels[case.kernel];
        let (found, scenario) = &self.options.selection.scenarios[case.scenario];
        let repeat = case.soak.or(turn.repeat);
        if self.restored(turn).is_none() {
            self.order_next();
        }
        let machine = |spec: &MachineSpec, place: &Path| {
            let kind = MachineKind { kernel: case.kernel, hooks: restores_hooks(scenario) };
            let machine = self.ahead.machine(kind, spec, place);
            // Not earlier: a machine's start is measured, and must not compete with another one for the host.
            self.order_next();
            machine
        };
        let guest = &self.prepared.guest;
        let attempt = Attempt { kernel, guest, found, scenario, repeat, run: self.directory };
        let result = attempt.execute_on(self.fitted(turn), retry, machine);
        if interrupt::check().is_err() {
            return Ok(None);
        }
        // Any other error of the lab is a result.
        let result = result.unwrap_or_else(|error| lab_error(kernel, found, repeat, &error));
        let mut result = known::in_view_of_bugs(&kernel.spec, ScenarioResult { retry, ..result });
        if self.options.forget_passes && result.status == Status::Passed {
            let first = lock(&self.passed)?.insert(turn.case);
            if !first {
                let directory = self.directory.join(std::mem::take(&mut result.directory));
                fs::remove_dir_all(&directory)?;
            }
        }
        self.leave_reproducer(turn, &mut result);
        Ok(Some(result))
    }

    /// Writes the reproducer of a failure. If that fails, the result has a note that says why.
    fn leave_reproducer(&self, turn: ScheduledRun, result: &mut ScenarioResult) {
        if result.directory.is_empty() {
            return;
        }
        let place = self.directory.join(&result.directory);
        let case = self.case(turn);
        let (found, scenario) = &self.options.selection.scenarios[case.scenario];
        let about = reproducer::RunContext {
            root: &self.options.root,
            tree: self.options.kernel_tree.is_some(),
            qemu: &self.qemu,
            host: &self.host,
            shuffle: self.options.shuffle,
            kernel: &self.prepared.kernels[case.kernel],
            found,
            scenario,
        };
        match reproducer::leave(&about, result, &place) {
            Ok(name) => result.reproducer = name,
            Err(error) => result.notes.push(format!("cannot write `{}`: {error:#}", reproducer::FILE)),
        }
    }

    /// Orders a machine for the next turn that takes a restored one.
    fn order_next(&self) {
        let next = self.next.load(Ordering::SeqCst);
        if let Some(kind) = ahead::next_kind(&self.schedule, next, |turn| self.restored(turn)) {
            self.ahead.order(kind);
        }
    }

    /// Returns the kind of machine of a turn that takes a restored one.
    fn restored(&self, turn: ScheduledRun) -> Option<MachineKind> {
        let case = self.case(turn);
        let (_, scenario) = &self.options.selection.scenarios[case.scenario];
        let restored = scenario.is_restored() && matches!(self.fitted(turn), Ok(Ok(_)));
        restored.then(|| MachineKind { kernel: case.kernel, hooks: restores_hooks(scenario) })
    }
}

fn schedule(prepared: &Prepared, options: &Options) -> Schedule {
    let selection = &options.selection;
    if let Some(seed) = options.shuffle {
        return Schedule::shuffled(selection.cases.len(), seed, options.rounds);
    }
    let times = Times::load(&prepared.lab.cache);
    let weight = |&case: &Case| {
        let (kernel, scenario) = selection.names(case);
        match selection.scenarios[case.scenario].1.exclusive {
            true => Weight::Alone,
            false => times.get(kernel, scenario).map_or(Weight::Unknown, Weight::Took),
        }
    };
    Schedule::heaviest_first(&selection.cases.iter().map(weight).collect::<Vec<_>>(), options.rounds)
}

fn lock<T>(mutex: &Mutex<T>) -> Result<MutexGuard<'_, T>> {
    mutex.lock().map_err(|_| panicked())
}

fn panicked() -> anyhow::Error {
    anyhow!("a worker panicked")
}
