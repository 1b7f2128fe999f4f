//! One scenario on one kernel, from power-on to verdict.

use super::{
    boot::{boot, boot_userland, fit_for_crash, for_crash, programs, restored_spec},
    reader,
};
use crate::{
    guest::Guest,
    kernel::Kernel,
    machine::{Death, Machine, MachineSpec, Snapshots, VMCORE},
    plan::{self, unmet},
    probe::{self, Unfit},
    recording::{self, Recording},
    report::{self, ScenarioResult},
    scenario::{Found, Fresh, Scenario},
    stored::{self, SCENARIO},
    verdict::{self, Status, Verdict},
};
use anyhow::{Context, Result};
use std::{
    fs,
    path::Path,
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::Instant,
};

/// Runs a scenario on a kernel. An error is the lab's own; whatever the
/// guest does is a verdict.
pub fn one(
    kernel: &Kernel,
    guest: &Guest,
    snapshots: &Snapshots,
    found: &Found,
    scenario: &Scenario,
    run: &Path,
) -> Result<ScenarioResult> {
    let machine = |spec: &MachineSpec, place: &Path| Machine::pristine(spec, snapshots, place);
    repeat(kernel, guest, machine, found, scenario, None, run)
}

/// One of several runs of a scenario on a kernel, each with a directory of its own. `pristine` has a
/// machine that has just booted.
pub(super) fn repeat(
    kernel: &Kernel,
    guest: &Guest,
    pristine: impl FnOnce(&MachineSpec, &Path) -> Result<Machine, Death>,
    found: &Found,
    scenario: &Scenario,
    repeat: Option<u32>,
    run: &Path,
) -> Result<ScenarioResult> {
    let mut started = Instant::now();
    let mut relative = format!("{}/{}", kernel.name, found.name);
    if let Some(number) = repeat {
        relative += &format!("@{number}");
    }
    let lacking = unmet(scenario, kernel).or(reader::missing(scenario, kernel)?);
    let fitted = match lacking {
        Some(reason) => Err(Unfit::Unsupported(reason)),
        None => probe::fit(scenario, kernel)?,
    };
    let (verdict, recording) = match fitted {
        Err(unfit @ Unfit::Unsupported(_)) => (of_unfit(&unfit), Recording::default()),
        fitted => {
            let place = report::Place::new(run, &relative)?;
            fs::copy(&found.path, place.path().join(SCENARIO))
                .with_context(|| format!("cannot copy `{}`", found.path.display()))?;
            let (verdict, recording) = match fitted {
                // It leaves a directory as every failure does, to be seen again from there.
                Err(unfit) => (of_unfit(&unfit), Recording::default()),
                Ok(scenario) => {
                    let waiting = Instant::now();
                    let _host = Host::wait(scenario.alone);
                    started += waiting.elapsed();
                    let recording = record(kernel, guest, pristine, &scenario, place.path());
                    (judge(&scenario, &recording, place.path()), recording)
                }
            };
            place.put()?;
            (verdict, recording)
        }
    };
    Ok(ScenarioResult {
        repeat,
        summary: scenario.summary.to_string(),
        reason: verdict.reason,
        seconds: started.elapsed().as_secs_f64(),
        vmcore: run.join(&relative).join(VMCORE).is_file().then(|| VMCORE.to_owned()),
        directory: relative,
        steps: recording.steps,
        expectations: verdict.expectations,
        splats: recording.splats,
        stacks: recording.stacks,
        left_behind: recording.left.into_iter().map(|left| left.text).collect(),
        notes: recording.notes,
        ..ScenarioResult::bare(&found.name, &kernel.name, verdict.status)
    })
}

/// The right to run a machine on the host, whose CPUs all machines share.
#[expect(dead_code, reason = "held, not read")]
enum Host {
    Whole(RwLockWriteGuard<'static, ()>),
    Shared(RwLockReadGuard<'static, ()>),
}

impl Host {
    fn wait(alone: bool) -> Host {
        static HOST: RwLock<()> = RwLock::new(());
        match alone {
            true => Host::Whole(HOST.write().unwrap_or_else(PoisonError::into_inner)),
            false => Host::Shared(HOST.read().unwrap_or_else(PoisonError::into_inner)),
        }
    }
}

/// The verdict where a kernel cannot have a scenario's probes: no guest is needed for it.
fn of_unfit(unfit: &Unfit) -> Verdict {
    Verdict { status: unfit.status(), reason: unfit.reason().to_owned(), expectations: Vec::new() }
}

/// The result of a scenario that the lab could not run.
pub(super) fn lab_error(
    kernel: &Kernel,
    found: &Found,
    repeat: Option<u32>,
    error: &anyhow::Error,
) -> ScenarioResult {
    let reason = format!("{error:#}");
    ScenarioResult { repeat, reason, ..ScenarioResult::bare(&found.name, &kernel.name, Status::LabError) }
}

fn record(
    kernel: &Kernel,
    guest: &Guest,
    pristine: impl FnOnce(&MachineSpec, &Path) -> Result<Machine, Death>,
    scenario: &Scenario,
    directory: &Path,
) -> Recording {
    let modules = match guest.modules.of(scenario, kernel) {
        Ok(modules) => modules,
        Err(error) => {
            return Recording::of_death(Death::Lab(error), "building its modules");
        }
    };
    if let Err(error) = guest.selftests.prepare(scenario, kernel) {
        return Recording::of_death(Death::Lab(error), "building its selftests");
    }
    let mut spec = match restored_spec(kernel, guest, needs_hooks(scenario)) {
        Ok(spec) => spec,
        Err(error) => return Recording::of_death(Death::Lab(error), "preparing its machine"),
    };
    spec.cmdline.extend(plan::cmdline(scenario));
    if scenario.attaches_crash() {
        fit_for_crash(&mut spec, kernel);
    }
    let machine = match (&scenario.userland, scenario.fresh) {
        (Some(wanted), _) => boot_userland(&spec, wanted, guest, directory, |tree| {
            let mut shared = programs(scenario, guest, tree)?;
            if scenario.attaches_crash() {
                shared.extend(for_crash(kernel, guest, &modules)?);
            }
            Ok(shared)
        }),
        (None, Fresh::Snapshot) => pristine(&spec, directory),
        (None, Fresh::Boot) => boot(spec, scenario.bootconfig.as_ref(), directory),
    };
    match machine {
        Ok(mut machine) => recording::record(scenario, kernel, &mut machine, guest, &modules, directory),
        Err(death) => Recording::of_death(death, "booting"),
    }
}

/// Whether its machine is restored, and to have the module that hooks functions then.
pub(super) fn needs_hooks(scenario: &Scenario) -> bool {
    scenario.hooks() && scenario.is_restored()
}

/// Only a whole recording whose expectations hold is a pass.
fn judge(scenario: &Scenario, recording: &Recording, directory: &Path) -> Verdict {
    let outcomes =
        if recording.trace { stored::judge_again(directory, Some(scenario)) } else { Ok(Vec::new()) };
    verdict::conclude(recording, outcomes)
}
