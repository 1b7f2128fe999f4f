//! Runs sequences, and keeps what contradicts the model.

use super::{
    choose::{Chooser, kept},
    corpus::{Corpus, named},
    facts::Facts,
    families::Operation,
    guide::{Guide, Reached, without_unknown},
    script::script,
    shrink::shrink,
    signature::{broken, signature},
    state::Model,
};
use crate::{
    coverage::Ran,
    guest::Guest,
    host::interrupt,
    kernel::Kernel,
    results::{COVERAGE, ScenarioResult, Status},
    run::{Attempt, Prepared, cpus},
    scenario::{Scenario, ScenarioFile},
};
use anyhow::{Context, Result, bail};
use fs_err as fs;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// The number of runs of the smallest scenario after which a failure that did not recur is given up.
const ATTEMPTS: u32 = 3;

/// The directory of the runs whose failure did not recur, below that of the search.
pub const ONCE: &str = "once";

/// The time after which a failure is not made smaller any more: the smallest part so far is what was found.
const SHRINK_MAX: Duration = Duration::from_mins(5);

/// Returns the default number of machines to run at once. Removing a probe waits for grace periods: on two CPUs,
/// 6 machines take a tenth less time than 4, and 8 no less.
pub fn default_jobs() -> usize {
    3 * cpus()
}

/// What is tried, and when it stops.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// The sequences are those of this number.
    pub seed: u64,
    /// The scenarios' key of this name.
    pub icount: Option<u8>,
    /// It stops after this time. What was found until then is still minimized.
    pub time: Option<Duration>,
    /// After this number of sequences.
    pub sequences: Option<u64>,
    /// After the first finding.
    pub first: bool,
    /// The number of machines at once.
    pub jobs: usize,
}

/// Something that contradicts the model.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The scenario, below the directory of the run, named by what is the same each time it happens.
    pub file: ScenarioFile,
    /// The reason of the smallest scenario's failure.
    pub reason: String,
    /// The number of operations before and after minimizing.
    pub operations: (usize, usize),
}

/// What a hunt tells while it runs.
pub enum Told<'a> {
    /// The numbers so far.
    Progress {
        /// Sequences that ran.
        sequences: u64,
        /// Different pairs of a state and an operation.
        pairs: usize,
        /// What of the kernel's tracing code ran, and the number of sequences to change further, if that is measured.
        reached: Option<(Reached, usize)>,
        /// The findings.
        findings: usize,
    },
    /// A failure that is new, and its reason. Its smallest part that fails is being looked for.
    Failed(&'a str),
    /// A new finding.
    Found(&'a Finding),
    /// A failure that did not recur on a pristine machine, its reason, and the files of the run in which it happened.
    Gone(&'a str, &'a Path),
}

/// A search on one kernel.
pub struct Hunt<'a, F> {
    prepared: &'a Prepared,
    kernel: &'a Kernel,
    /// Thousands of scenarios pass, whose output nobody sees.
    guest: Guest,
    /// Where scenarios and findings go.
    directory: &'a Path,
    search: Search,
    /// Where findings are kept for the next search.
    pub(super) corpus: Option<Corpus>,
    pub(super) facts: Facts,
    chooser: Mutex<Chooser>,
    pub(super) guide: Option<Mutex<Guide>>,
    sequences: AtomicU64,
    /// The names of what was seen so far.
    seen: Mutex<BTreeSet<String>>,
    findings: Mutex<Vec<Finding>>,
    tell: Mutex<F>,
    started: Instant,
}

/// A run of operations.
pub(super) struct Run {
    result: ScenarioResult,
    /// A name for what is the same each time this happens; `None` if it passed.
    name: Option<String>,
    /// The number of operations that were begun.
    begun: usize,
    /// The code that ran, if that is measured.
    pub(super) code: Option<Ran>,
    /// Where the files of its result are, until this is dropped.
    place: TempDir,
}

impl<'a, F: FnMut(Told<'_>) + Send> Hunt<'a, F> {
    /// A search on the first of the prepared kernels. What it finds is kept in `corpus`; if coverage is measured, it
    /// changes the sequences there, and adds those that reach new lines or branches.
    pub fn new(
        prepared: &'a Prepared,
        directory: &'a Path,
        corpus: Option<Corpus>,
        search: Search,
        tell: F,
    ) -> Result<Hunt<'a, F>> {
        let kernel = prepared.kernels.first().context("there is no kernel")?;
        let facts = Facts::of(prepared, kernel, search.icount)?;
        let guide = |corpus: &Corpus| Guide::new(prepared, kernel, facts, corpus.clone()).map(Mutex::new);
        Ok(Hunt {
            prepared,
            kernel,
            guest: Guest { keeps_output: false, ..prepared.guest.clone() },
            directory,
            search,
            facts,
            chooser: Mutex::new(Chooser::new(search.seed, facts)),
            guide: corpus.as_ref().filter(|_| prepared.guest.measures).map(guide).transpose()?,
            corpus,
            sequences: AtomicU64::new(0),
            seen: Mutex::default(),
            findings: Mutex::default(),
            tell: Mutex::new(tell),
            started: Instant::now(),
        })
    }

    /// Confines new sequences to these of [`super::areas`], if there are any.
    pub fn confine(&self, areas: &[String]) {
        lock(&self.chooser).confine(areas);
    }

    /// Writes scenarios of what earlier searches found on this kernel, with what the model predicts today. Returns
    /// them; what they find is not found again.
    pub fn again(&self) -> Result<Vec<ScenarioFile>> {
        let Some(corpus) = &self.corpus else { return Ok(Vec::new()) };
        let again = corpus.found(&self.kernel.name)?.into_iter().map(|(name, operations)| {
            let file = self.write(&name, &without_unknown(self.facts, operations))?;
            lock(&self.seen).insert(name);
            Ok(file)
        });
        again.collect()
    }

    /// Searches until a limit is reached or the lab is interrupted. Returns what was found, and the number of
    /// sequences.
    pub fn run(self) -> Result<(Vec<Finding>, u64)> {
        match self.on_all_machines(|| self.work()) {
            // What ran at that moment counts for nothing.
            Err(_) if interrupt::check().is_err() => {}
            end => end?,
        }
        let findings = self.findings.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok((findings, self.sequences.into_inner()))
    }

    /// Does some work on as many machines at once as are wanted.
    pub(super) fn on_all_machines(&self, work: impl Fn() -> Result<()> + Sync) -> Result<()> {
        thread::scope(|scope| {
            let workers: Vec<_> = (0..self.search.jobs).map(|_| scope.spawn(&work)).collect();
            let ends = workers.into_iter().map(|worker| match worker.join() {
                Ok(result) => result,
                Err(_) => bail!("a worker panicked"),
            });
            ends.collect::<Vec<_>>().into_iter().collect::<Result<()>>()
        })
    }

    pub(super) fn is_over(&self) -> bool {
        let sequences = self.sequences.load(Ordering::Relaxed);
        self.search.time.is_some_and(|time| self.started.elapsed() >= time)
            || self.search.sequences.is_some_and(|most| sequences >= most)
            || self.search.first && !lock(&self.findings).is_empty()
            || interrupt::check().is_err()
    }

    fn work(&self) -> Result<()> {
        while !self.is_over() {
            let (sequences, keeps) = lock(&self.chooser).batch(self.guide.as_ref().map(lock).as_deref());
            let mut batch = sequences.clone();
            if keeps
                && let Some(last) = batch.last_mut()
                && let Some(kept) = kept(self.facts, last)
            {
                *last = kept;
            }
            let ran = self.once(&batch.concat())?;
            if let Some((guide, code)) = self.guide.as_ref().zip(ran.code.as_ref()) {
                lock(guide).add(code, &sequences)?;
            }
            self.count(batch.len());
            if interrupt::check().is_ok() && ran.name.is_some() {
                self.pursue(&batch, &ran)?;
            }
        }
        Ok(())
    }

    /// Counts sequences that ran, and tells all numbers.
    pub(super) fn count(&self, ran: usize) {
        let sequences = self.sequences.fetch_add(ran as u64, Ordering::Relaxed) + ran as u64;
        let (pairs, findings) = (lock(&self.chooser).pairs(), lock(&self.findings).len());
        let reached = self.guide.as_ref().map(|guide| lock(guide).numbers());
        (lock(&self.tell))(Told::Progress { sequences, pairs, reached, findings });
    }

    /// Runs operations on a pristine machine.
    pub(super) fn once(&self, operations: &[Operation]) -> Result<Run> {
        let place = tempfile::tempdir_in(self.directory).context("cannot make a directory")?;
        let script = script("operations and what the model predicts", Model::new(self.facts), operations);
        let found = put(place.path(), "explored", &script.text)?;
        let scenario = Scenario::parse(&found.path, &script.text)?;
        let attempt = Attempt {
            kernel: self.kernel,
            guest: &self.guest,
            found: &found,
            scenario: &scenario,
            repeat: None,
            run: place.path(),
        };
        let result = attempt.execute(&self.prepared.snapshots)?;
        match result.status {
            Status::Unsupported => bail!("{} cannot run it: {}", self.kernel.name, result.reason),
            Status::LabError => bail!("{}", result.reason),
            _ => {}
        }
        let name = (!result.status.is_good()).then(|| named(&signature(&result, &script, operations)));
        let directory = place.path().join(&result.directory);
        let code = self.guide.as_ref().map(|_| Ran::load(&directory, COVERAGE)).transpose()?.flatten();
        let begun = broken(&result, &script).map_or(operations.len(), |(_, operation)| operation + 1);
        Ok(Run { result, name, begun, code, place })
    }

    /// Looks for the smallest part of a batch that fails.
    fn pursue(&self, batch: &[Vec<Operation>], ran: &Run) -> Result<()> {
        let Some(name) = ran.name.as_ref().filter(|name| lock(&self.seen).insert((*name).clone())) else {
            return Ok(());
        };
        (lock(&self.tell))(Told::Failed(&ran.result.reason));
        let whole = batch.concat();
        // A sequence alone is smaller; all of them together are what was seen to fail.
        let parts = batch.iter().cloned().chain(std::iter::repeat_n(whole.clone(), ATTEMPTS as usize));
        for operations in parts {
            interrupt::check()?;
            let again = self.once(&operations)?;
            if let Some(wanted) = again.name {
                // Alone, it may fail otherwise: at an earlier look, for example.
                if !lock(&self.seen).insert(wanted.clone()) && name != &wanted {
                    return Ok(());
                }
                return self.keep((operations, again.begun), &wanted, whole.len());
            }
        }
        // What happens in one run of many is best looked for in that one.
        let once = self.directory.join(ONCE);
        fs::create_dir_all(&once)?;
        let kept = once.join(name);
        if kept.exists() {
            fs::remove_dir_all(&kept)?;
        }
        fs::rename(ran.place.path().join(&ran.result.directory), &kept)?;
        (lock(&self.tell))(Told::Gone(&ran.result.reason, &kept));
        Ok(())
    }

    /// Keeps the smallest part of some operations, of which some were begun, that still does what is `wanted`.
    fn keep(
        &self,
        (mut operations, begun): (Vec<Operation>, usize),
        wanted: &str,
        before: usize,
    ) -> Result<()> {
        let started = Instant::now();
        let same = |rest: &[Operation]| {
            interrupt::check()?;
            Ok(started.elapsed() < SHRINK_MAX && self.once(rest)?.name.as_deref() == Some(wanted))
        };
        if begun < operations.len() && same(&operations[..begun])? {
            operations.truncate(begun);
        }
        let operations = shrink(self.facts, operations, same)?;
        let reason = self.once(&operations)?.result.reason;
        let file = self.write(wanted, &operations)?;
        if let Some(corpus) = &self.corpus {
            corpus.add_found(&self.kernel.name, wanted, &operations)?;
        }
        let finding = Finding { file, reason, operations: (before, operations.len()) };
        (lock(&self.tell))(Told::Found(&finding));
        lock(&self.findings).push(finding);
        Ok(())
    }

    /// Writes the scenario of a finding.
    fn write(&self, name: &str, operations: &[Operation]) -> Result<ScenarioFile> {
        let text = script("found by exploring", Model::new(self.facts), operations).text;
        put(&self.directory.join("found"), name, &text)
    }
}

fn put(directory: &Path, name: &str, text: &str) -> Result<ScenarioFile> {
    fs::create_dir_all(directory)?;
    let path: PathBuf = directory.join(format!("{name}.yaml"));
    fs::write(&path, text)?;
    Ok(ScenarioFile { name: name.to_owned(), path })
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
