//! Recording and outcomes → one [`Verdict`]. A pass needs proof: a whole recording, every step as
//! written, every expectation held, no splat. Anything else has a name of its own.

use super::{Outcome, Status, Verdict, splat};
use crate::{machine::Death, recording::Recording};
use anyhow::Result;

/// The verdict on a recording whose trace came to `outcomes`.
pub fn conclude(recording: &Recording, outcomes: Result<Vec<Outcome>>) -> Verdict {
    let (expectations, unreadable) = match outcomes {
        Ok(outcomes) => (outcomes, None),
        Err(error) => (Vec::new(), Some(format!("the trace cannot be read: {error:#}"))),
    };
    let step = recording.steps.iter().position(|step| !step.passed);
    let (status, reason) = if let Some((death, during)) = &recording.death {
        (of_death(death), format!("{death}, during {during}"))
    } else if let Some(splat) = splat::find(&recording.kernel_log) {
        (splat.status, format!("in the kernel log: {}", splat.line))
    } else if let Some(reason) = &recording.unarmed {
        (Status::Failed, reason.clone())
    } else if let Some(index) = step {
        (
            Status::Failed,
            format!("step {} did not do what it should: {}", index + 1, recording.steps[index].detail),
        )
    } else if let Some(reason) = unreadable {
        (Status::LabError, reason)
    } else if !recording.trace {
        (Status::LabError, "there is no trace to judge".to_owned())
    } else {
        return Verdict::of(expectations);
    };
    Verdict { status, reason, expectations }
}

fn of_death(death: &Death) -> Status {
    match death {
        Death::Panic { .. } => Status::Panic,
        Death::Deadline { .. } => Status::Hang,
        Death::PoweredOff { .. }
        | Death::Rebooted
        | Death::QemuEnded { .. }
        | Death::AgentLost(_)
        | Death::NoBoot { .. } => Status::LostGuest,
        Death::Interrupted | Death::Lab(_) => Status::LabError,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{report::StepResult, verdict::OutcomeStatus};
    use std::time::Duration;

    fn whole() -> Recording {
        Recording { trace: true, ..Recording::default() }
    }

    fn outcome(status: OutcomeStatus) -> Outcome {
        Outcome { text: "count".into(), status, detail: String::new() }
    }

    fn check(recording: Recording, outcomes: Vec<Outcome>, status: Status, reason: &str) {
        let verdict = conclude(&recording, Ok(outcomes));
        assert_eq!(verdict.status, status);
        assert!(verdict.reason.contains(reason), "`{reason}` is not in `{}`", verdict.reason);
    }

    #[test]
    fn only_a_whole_recording_whose_expectations_hold_is_a_pass() {
        use OutcomeStatus::{Failed, Inconclusive, Passed};
        check(whole(), vec![outcome(Passed)], Status::Passed, "");
        check(Recording::default(), vec![], Status::LabError, "no trace");
        check(whole(), vec![outcome(Passed), outcome(Failed)], Status::Failed, "count");
        check(whole(), vec![outcome(Inconclusive), outcome(Failed)], Status::Failed, "count");
        check(whole(), vec![outcome(Passed), outcome(Inconclusive)], Status::Inconclusive, "count");
        let broken = StepResult { detail: "expected EBUSY, found success".into(), ..StepResult::default() };
        check(Recording { steps: vec![broken], ..whole() }, vec![], Status::Failed, "step 1 did not");
        check(Recording { unarmed: Some("ENOENT".into()), ..whole() }, vec![], Status::Failed, "ENOENT");
        let log = "[ 1.0] WARNING: CPU: 0 PID: 1 at kernel/trace/ftrace.c:1".to_owned();
        check(Recording { kernel_log: log, ..whole() }, vec![outcome(Passed)], Status::Splat, "ftrace.c:1");
    }

    #[test]
    fn a_death_has_a_name() {
        let dead = |death| Recording { death: Some((death, "step 2".into())), ..whole() };
        let after = Duration::from_secs(3);
        check(dead(Death::Panic { message: "sysrq".into() }), vec![], Status::Panic, "sysrq, during step 2");
        check(dead(Death::Deadline { after, request: "x".into() }), vec![], Status::Hang, "3.0 s");
        check(
            dead(Death::PoweredOff { console: String::new() }),
            vec![],
            Status::LostGuest,
            "powered itself off",
        );
        check(dead(Death::Lab(anyhow::anyhow!("disk full"))), vec![], Status::LabError, "disk full");
    }

    #[test]
    fn a_trace_that_cannot_be_read_is_no_pass() {
        let verdict = conclude(&whole(), Err(anyhow::anyhow!("cut short")));
        assert_eq!(verdict.status, Status::LabError);
    }
}
