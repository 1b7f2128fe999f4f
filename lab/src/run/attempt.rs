//! One scenario on one kernel, from power-on to verdict.

use crate::{
    coverage,
    fit::{self, Unfit},
    guest::Guest,
    kernel::Kernel,
    machine::{Death, Machine, MachineSpec, Snapshots, Subject, VMCORE},
    recording::{self, Recording},
    results::{self, COVERAGE, SCENARIO, ScenarioResult, Status, Verdict},
    scenario::{Scenario, ScenarioFile},
    splat::Binaries,
    verdict,
};
use anyhow::{Result, anyhow};
use fs_err as fs;
use std::{
    borrow::Cow,
    path::Path,
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::Instant,
};

/// One run of a scenario on a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// The agent, modules and programs for the guest.
    pub guest: &'a Guest,
    /// The scenario's file.
    pub found: &'a ScenarioFile,
    /// The scenario.
    pub scenario: &'a Scenario,
    /// The number of this run, from 1, if the scenario runs several times. Each has its own directory.
    pub repeat: Option<u32>,
    /// The directory of the whole run.
    pub run: &'a Path,
}

const WITHOUT_NOTES: &str = "QEMU cannot note on this host which code runs";

/// The result of [`fit::fit`]: whether a kernel and this host can run a scenario.
pub(super) type Fitted<'a> = Result<Result<Cow<'a, Scenario>, Unfit>>;

impl Attempt<'_> {
    /// Runs the scenario on a pristine machine. Only a failure of the lab is an error; all else is a verdict.
    pub fn execute(&self, snapshots: &Snapshots) -> Result<ScenarioResult> {
        let machine = |spec: &MachineSpec, place: &Path| Machine::pristine(spec, snapshots, place);
        self.execute_on(&fit::fit(self.scenario, self.kernel), None, machine)
    }

    /// Runs the scenario: for the first time, or for the `retry`th time after a failure, counted from 1. `pristine`
    /// returns a machine that has just booted.
    pub(super) fn execute_on(
        &self,
        fitted: &Fitted<'_>,
        retry: Option<u32>,
        pristine: impl FnOnce(&MachineSpec, &Path) -> Result<Machine, Death>,
    ) -> Result<ScenarioResult> {
        let mut started = Instant::now();
        let Attempt { kernel, found, scenario, run, .. } = *self;
        let relative = format!("{}/{}", kernel.name, results::label(&found.name, self.repeat, retry));
        let fitted = fitted.as_ref().map_err(|error| anyhow!("{error:#}"))?;
        // Any other error is the scenario's, and reported when its machine starts.
        let unbuildable = match fitted {
            Ok(scenario) => self.guest.script_modules(scenario, kernel).ok().and_then(Result::err),
            Err(_) => None,
        };
        let unmeasured = scenario.compares_executed() && self.guest.plugin.is_none();
        let unbuildable = unbuildable.or_else(|| unmeasured.then(|| WITHOUT_NOTES.to_owned()));
        let unbuildable = unbuildable.map(Unfit::Unsupported);
        let (conclusion, directory) = match (fitted, &unbuildable) {
            (Err(unfit @ Unfit::Unsupported(_)), _) | (_, Some(unfit)) => {
                (verdict_on(unfit).into(), String::new())
            }
            (fitted, None) => {
                let place = results::PendingDirectory::new(run, &relative)?;
                fs::copy(&found.path, place.path().join(SCENARIO))?;
                let conclusion = match fitted {
                    // Like every failure, it has a directory for its reproducer.
                    Err(unfit) => verdict_on(unfit).into(),
                    Ok(scenario) => {
                        let waiting = Instant::now();
                        let _share = HostShare::wait(scenario.exclusive);
                        started += waiting.elapsed();
                        let (mut recording, binaries) = self.record(pristine, scenario, place.path());
                        let to = place.path().join(COVERAGE);
                        let to = self.guest.measures.then_some(to.as_path());
                        if let Err(error) = coverage::keep(kernel, place.path(), &recording.loads, to) {
                            recording.notes.push(format!("the code that ran is not known: {error:#}"));
                        }
                        verdict::conclude(scenario, recording, place.path(), &binaries)
                    }
                };
                place.put()?;
                (conclusion, relative)
            }
        };
        Ok(ScenarioResult {
            repeat: self.repeat,
            retry,
            summary: scenario.summary.to_string(),
            reason: conclusion.verdict.reason,
            seconds: started.elapsed().as_secs_f64(),
            vmcore: run.join(&directory).join(VMCORE).is_file().then(|| VMCORE.to_owned()),
            directory,
            steps: conclusion.steps,
            expectations: conclusion.verdict.expectations,
            splats: conclusion.splats,
            stacks: conclusion.stacks,
            left_behind: conclusion.left_behind,
            notes: conclusion.notes,
            ..ScenarioResult::bare(&found.name, &kernel.name, conclusion.verdict.status)
        })
    }

    fn record(
        &self,
        pristine: impl FnOnce(&MachineSpec, &Path) -> Result<Machine, Death>,
        scenario: &Scenario,
        directory: &Path,
    ) -> (Recording, Binaries) {
        let Attempt { kernel, guest, .. } = *self;
        let dead = |death, stage| (Recording::of_death(death, stage).stored(directory), Binaries::default());
        let modules = match guest.modules.of(scenario, kernel) {
            Ok(modules) => modules,
            Err(error) => return dead(Death::Lab(error), "building its modules"),
        };
        let guest = match guest.with_workloads_of(scenario) {
            Ok(guest) => guest,
            Err(error) => return dead(Death::Lab(error), "building its workloads"),
        };
        if let Err(error) = guest.selftests.prepare(scenario, kernel) {
            return dead(Death::Lab(error), "building its selftests");
        }
        let subject = Subject { scenario, kernel, guest: &guest, modules: &modules };
        let spec = match subject.spec() {
            Ok(spec) => spec,
            Err(error) => return dead(Death::Lab(error), "preparing its machine"),
        };
        match subject.start(spec, directory, pristine) {
            Ok(mut machine) => {
                let recording = recording::record(&subject, &mut machine, directory);
                (recording, recording::binaries(&subject))
            }
            Err(death) => dead(death, "booting"),
        }
    }
}

/// The right to run a machine on the host, whose CPUs all machines share.
#[expect(dead_code, reason = "held, not read")]
pub(super) enum HostShare {
    Whole(RwLockWriteGuard<'static, ()>),
    Shared(RwLockReadGuard<'static, ()>),
}

impl HostShare {
    pub(super) fn wait(alone: bool) -> HostShare {
        static HOST: RwLock<()> = RwLock::new(());
        match alone {
            true => HostShare::Whole(HOST.write().unwrap_or_else(PoisonError::into_inner)),
            false => HostShare::Shared(HOST.read().unwrap_or_else(PoisonError::into_inner)),
        }
    }
}

/// Returns the verdict on a scenario that a kernel or this host cannot run. It needs no guest.
fn verdict_on(unfit: &Unfit) -> Verdict {
    let status = match unfit {
        Unfit::Unsupported(_) => Status::Unsupported,
        Unfit::Invalid(_) => Status::Failed,
    };
    Verdict { status, reason: unfit.reason().to_owned(), expectations: Vec::new() }
}

/// Returns the result of a scenario that the lab could not run.
pub(super) fn lab_error(
    kernel: &Kernel,
    found: &ScenarioFile,
    repeat: Option<u32>,
    error: &anyhow::Error,
) -> ScenarioResult {
    let reason = format!("{error:#}");
    ScenarioResult { repeat, reason, ..ScenarioResult::bare(&found.name, &kernel.name, Status::LabError) }
}
