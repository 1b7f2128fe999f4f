//! `bench gcov`: compares the lines that the lab measures with those that the kernel itself counts.
//!
//! Each scenario runs once, on a kernel whose tracing code has the counters of GCOV, while the lab measures
//! the same machine. The counters are set to zero when the machine has been restored and read after the
//! scenario, so both show what ran in between.

mod compare;
mod counters;

use super::Figures;
use crate::{
    context::Lab,
    coverage::{Presence, Ranges, Source, SourceFiles},
    fit,
    guest::{self, Guest},
    host::interrupt,
    kernel::{self, Kernel},
    machine::{Death, Machine, Snapshots, Subject, executed, measured},
    recording,
    scenario::{Scenario, ScenarioFile},
};
use anyhow::{Context, Result, bail, ensure};
use compare::Comparison;
use counters::{AREA, Counted, Counters};
use fs_err as fs;
use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    thread,
};

/// The kernel whose tracing code has counters.
const KERNEL: &str = "6.12-gcov";

/// The lines that differ, below the directory of results.
const DIFFERENCES: &str = "gcov/differences.txt";

/// Runs scenarios, and writes the lines about which lab and kernel differ to a file below `results`.
///
/// # Errors
/// The host cannot measure which code runs, or no scenario could be compared.
pub fn gcov(lab: &Lab, scenarios: &[(ScenarioFile, Scenario)], results: &Path) -> Result<Figures> {
    let guest = measured(lab, guest::build(lab)?, true, None)?;
    ensure!(guest.measures, "this host cannot measure which code runs");
    let kernel = kernel::build(lab, KERNEL, None)?;
    let roots = vec![kernel.directory.clone(), kernel.source.clone()];
    let vmlinux = kernel.vmlinux().context("the kernel has no vmlinux")?;
    let files = SourceFiles::named(&[AREA.to_owned()]);
    let bench = Bench {
        counters: Counters::of(&kernel, &roots)?,
        source: Source::of_vmlinux(&vmlinux, &roots, &files)?,
        guest,
        snapshots: Snapshots::new(lab)?,
        directory: lab.cache.directory("bench")?,
        kernel,
    };
    let comparison = bench.compare(lab, scenarios)?;
    let path = results.join(DIFFERENCES);
    fs::create_dir_all(path.parent().unwrap_or(results))?;
    fs::write(&path, comparison.differences(&bench.source))?;
    lab.progress.line(format!("the lines that differ are in {}", path.display()));
    Ok(Figures {
        bench: "gcov".to_owned(),
        figures: comparison.figures(),
        table: comparison.table(&bench.source),
    })
}

struct Bench {
    kernel: Kernel,
    guest: Guest,
    snapshots: Snapshots,
    source: Source,
    counters: Counters,
    directory: PathBuf,
}

impl Bench {
    /// Runs the scenarios, some at once, and adds up what they show.
    fn compare(&self, lab: &Lab, scenarios: &[(ScenarioFile, Scenario)]) -> Result<Comparison> {
        let task = lab.progress.task("comparing scenarios", Some(scenarios.len() as u64));
        let left = Mutex::new(scenarios.iter());
        let comparison = Mutex::new(Comparison::new(self.source.lines.len()));
        let work = || -> Result<()> {
            loop {
                interrupt::check()?;
                let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((file, scenario)) = next else { return Ok(()) };
                let observed =
                    self.observe(scenario).with_context(|| format!("cannot compare `{}`", file.name))?;
                let mut comparison = comparison.lock().unwrap_or_else(PoisonError::into_inner);
                comparison.add(&file.name, observed);
                task.set(comparison.count() as u64);
            }
        };
        let threads = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| match worker.join() {
                Ok(done) => done,
                Err(_) => bail!("a thread panicked"),
            })
        })?;
        Ok(comparison.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs a scenario. Returns how much of each line the lab measured and which lines the kernel counted; `None`
    /// if the kernel cannot run it, or if the machine does not survive it.
    fn observe(&self, scenario: &Scenario) -> Result<Option<(Vec<Presence>, Counted)>> {
        let Ok(scenario) = fit::fit(scenario, &self.kernel)? else { return Ok(None) };
        let place = tempfile::tempdir_in(&self.directory)?;
        let modules = self.guest.modules.of(&scenario, &self.kernel)?;
        self.guest.selftests.prepare(&scenario, &self.kernel)?;
        let subject =
            Subject { scenario: &scenario, kernel: &self.kernel, guest: &self.guest, modules: &modules };
        let counted = match self.run(&subject, place.path()) {
            Ok(counted) => counted,
            Err(death @ (Death::Lab(_) | Death::Interrupted)) => return Err(death.into()),
            Err(_) => return Ok(None),
        };
        let counted = self.counters.lines(&self.source, &counted, place.path())?;
        let executed = executed(place.path())?.context("the machine made no notes")?;
        // What is not noted would count as not run.
        let code: Ranges = executed.blocks.into_iter().collect();
        Ok((executed.lost == 0).then(|| (self.source.presence_in(&code), counted)))
    }

    /// Runs a scenario on a machine, which has ended when this returns the counters.
    fn run(&self, subject: &Subject<'_>, place: &Path) -> Result<Vec<(String, Vec<u8>)>, Death> {
        let spec = subject.spec().map_err(Death::Lab)?;
        let mut machine =
            subject.start(spec, place, |spec, place| Machine::pristine(spec, &self.snapshots, place))?;
        // The lab measures a machine that is booted for its scenario from its first instruction on.
        if subject.scenario.is_restored() {
            Counters::reset(&mut machine)?;
        }
        recording::record(subject, &mut machine, place);
        self.counters.read(&mut machine)
    }
}
