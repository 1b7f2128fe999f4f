//! Facts and outcomes → one [`Verdict`]. A pass needs proof: a complete recording, every step as
//! written, every expectation held, no splat. Anything else has a name of its own.

use super::{
    Evidence, judge,
    leftovers::{failing, unmatched},
    panic::{RequiredPanic, required_panic},
};
use crate::{
    host::beneath::trace_beneath,
    recording::{self, End, EndKind, Leftover, Recording},
    results::{Outcome, Status, StepResult, TRACE, Verdict, trace_of},
    scenario::{Allowed, Describe, Scenario},
    splat::{Binaries, Severity, Splat, decode, find},
};
use anyhow::Result;
use std::{collections::BTreeMap, path::Path};

/// The verdict on a recording, and what a result shows of it.
#[derive(Debug)]
pub struct Conclusion {
    /// The verdict.
    pub verdict: Verdict,
    /// The results of the steps.
    pub steps: Vec<StepResult>,
    /// The splats of the kernel log, decoded.
    pub splats: Vec<Splat>,
    /// The stacks of tasks when a deadline passed, decoded.
    pub stacks: Vec<Splat>,
    /// The leftovers of the steps.
    pub left_behind: Vec<String>,
    /// The reasons why the lab could not find something out.
    pub notes: Vec<String>,
}

/// A verdict for which nothing ran.
impl From<Verdict> for Conclusion {
    fn from(verdict: Verdict) -> Conclusion {
        Conclusion {
            verdict,
            steps: Vec::new(),
            splats: Vec::new(),
            stacks: Vec::new(),
            left_behind: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// Judges a recording with the files in its `directory`. Call traces are decoded with `binaries`.
pub fn conclude(
    scenario: &Scenario,
    recording: Recording,
    directory: &Path,
    binaries: &Binaries,
) -> Conclusion {
    let outcomes = match recording.trace {
        true => expectations(scenario, directory, &recording.kernel_log, &recording.files),
        false => Ok(Vec::new()),
    };
    let mut conclusion = of_facts(scenario, recording, outcomes);
    for splats in [&mut conclusion.splats, &mut conclusion.stacks] {
        if let Err(error) = decode(splats, binaries) {
            conclusion.notes.push(format!("cannot find the files and lines of call traces: {error:#}"));
        }
    }
    conclusion
}

/// Judges expectations on the traces in a scenario's `directory`, its kernel log and its tracefs files.
pub(super) fn expectations(
    scenario: &Scenario,
    directory: &Path,
    kernel_log: &str,
    files: &BTreeMap<String, String>,
) -> Result<Vec<Outcome>> {
    let trace = trace_beneath(directory, TRACE)?;
    let mut instances = BTreeMap::new();
    for name in scenario.trace.instances() {
        instances.insert(name.to_owned(), trace_beneath(directory, trace_of(Some(name)))?);
    }
    let outputs = &recording::outputs(directory, &scenario.evidence_outputs());
    judge(scenario, &Evidence { trace: &trace, instances: &instances, kernel_log, files, outputs })
}

/// Judges a recording whose trace came to `outcomes`.
fn of_facts(scenario: &Scenario, mut recording: Recording, outcomes: Result<Vec<Outcome>>) -> Conclusion {
    let mut splats = find(&recording.kernel_log);
    for splat in &mut splats {
        splat.allowed = scenario.allow.iter().any(|allowed| is_allowed(allowed, splat));
    }
    let required = required_panic(scenario, &recording);
    if let Some(RequiredPanic::Panicked { message, .. }) = &required {
        for splat in splats.iter_mut().filter(|splat| splat.severity == Severity::Panic) {
            splat.allowed = true;
        }
        if let Some(step) = recording.steps.last_mut() {
            step.passed = true;
            step.detail = format!("the kernel panicked as required: {message}");
        }
    }
    let verdict = decide(scenario, &recording, &splats, required, outcomes);
    Conclusion {
        verdict,
        steps: recording.steps,
        splats,
        stacks: recording.stacks,
        left_behind: recording.leftovers.iter().map(Leftover::to_string).collect(),
        notes: recording.notes,
    }
}

fn decide(
    scenario: &Scenario,
    recording: &Recording,
    splats: &[Splat],
    required: Option<RequiredPanic>,
    outcomes: Result<Vec<Outcome>>,
) -> Verdict {
    let (expectations, unreadable) = match outcomes {
        Ok(outcomes) => (outcomes, None),
        Err(error) => (Vec::new(), Some(format!("cannot read the trace: {error:#}"))),
    };
    let step = recording.steps.iter().position(|step| !step.passed);
    let left: Vec<String> = failing(scenario, recording).map(Leftover::to_string).collect();
    let wrong_end = match &required {
        Some(RequiredPanic::Survived) => Some("expected a panic, but the kernel is still running"),
        Some(RequiredPanic::Panicked { backtrace: Err(reason), .. }) => Some(reason.as_str()),
        _ => None,
    };
    let (status, reason) = if let Some(RequiredPanic::Unread(reason)) = required {
        (Status::LabError, format!("{reason}, during reading the panic backtrace"))
    } else if let (Some(end), None) = (&recording.end, &required) {
        (of_end(end, splats), format!("{}, during {}", end.text, end.during))
    } else if let Some(splat) = worst(splats) {
        (splat.severity.into(), splat.sentence())
    } else if let Some(reason) = &recording.unarmed {
        (Status::Failed, reason.clone())
    } else if let Some(index) = step {
        (Status::Failed, format!("step {} failed: {}", index + 1, recording.steps[index].detail))
    } else if let Some(reason) = wrong_end {
        (Status::Failed, reason.to_owned())
    } else if !left.is_empty() {
        (Status::Failed, format!("left behind: {}", left.join(", ")))
    } else if let Some(reason) = missing(scenario, recording, splats) {
        (Status::Failed, reason)
    } else if let Some(reason) = unreadable {
        (Status::LabError, reason)
    } else if !recording.trace && required.is_none() {
        (Status::LabError, "there is no trace to judge".to_owned())
    } else {
        return Verdict::of(expectations);
    };
    Verdict { status, reason, expectations }
}

/// Says which declared splat or leftover is not there.
fn missing(scenario: &Scenario, recording: &Recording, splats: &[Splat]) -> Option<String> {
    let splat = scenario.allow.iter().find(|allowed| !splats.iter().any(|splat| is_allowed(allowed, splat)));
    if let Some(allowed) = splat {
        return Some(format!("no splat matches {} of `allow`", allowed.describe()));
    }
    // Leftovers are read with the trace.
    let pattern = unmatched(scenario, recording).next().filter(|_| recording.trace)?;
    Some(format!("nothing that was left behind matches /{pattern}/ of `may_leave`"))
}

/// Returns whether this allows the splat.
fn is_allowed(allowed: &Allowed, splat: &Splat) -> bool {
    allowed.matches(&splat.fingerprint, &[splat.title.as_str(), splat.message.as_str()])
}

/// Returns the splat that names the verdict: the first of the worst that are not allowed.
fn worst(splats: &[Splat]) -> Option<&Splat> {
    let rank = |splat: &&Splat| match splat.severity {
        Severity::Panic => 0,
        Severity::Oops => 1,
        _ => 2,
    };
    splats.iter().filter(|splat| !splat.allowed).min_by_key(rank)
}

/// The beginnings of panic messages that follow an oops: of PID 1, in an interrupt, or of any task with
/// panic_on_oops.
const CONSEQUENCES: [&str; 3] = ["Attempted to kill init", "Oops", "Fatal exception"];

fn of_end(end: &End, splats: &[Splat]) -> Status {
    match &end.kind {
        EndKind::Panic(message) => {
            let consequence = CONSEQUENCES.iter().any(|begins| message.starts_with(begins));
            let oops = splats.iter().any(|splat| splat.severity == Severity::Oops);
            if consequence && oops { Status::Oops } else { Status::Panic }
        }
        EndKind::Deadline => Status::Hang,
        EndKind::PoweredOff
        | EndKind::Rebooted
        | EndKind::QemuEnded
        | EndKind::AgentLost
        | EndKind::NoBoot => Status::LostGuest,
        EndKind::Interrupted | EndKind::Lab => Status::LabError,
    }
}

#[cfg(test)]
#[path = "conclude_tests.rs"]
mod tests;
