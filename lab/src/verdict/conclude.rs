//! Recording and outcomes → one [`Verdict`]. A pass needs proof: a whole recording, every step as
//! written, every expectation held, no splat. Anything else has a name of its own.

use super::{Outcome, Splat, Status, Verdict};
use crate::{machine::Death, recording::Recording};
use anyhow::Result;

/// The verdict on a recording whose trace came to `outcomes`.
pub fn conclude(recording: &Recording, outcomes: Result<Vec<Outcome>>) -> Verdict {
    let (expectations, unreadable) = match outcomes {
        Ok(outcomes) => (outcomes, None),
        Err(error) => (Vec::new(), Some(format!("the trace cannot be read: {error:#}"))),
    };
    let step = recording.steps.iter().position(|step| !step.passed);
    let left: Vec<&str> =
        recording.left.iter().filter(|left| left.fails).map(|left| left.text.as_str()).collect();
    let (status, reason) = if let (Some((death, during)), None) = (&recording.death, &recording.end) {
        (of_death(death, &recording.splats), format!("{death}, during {during}"))
    } else if let Some(splat) = worst(&recording.splats) {
        (splat.status, splat.sentence())
    } else if let Some(reason) = &recording.unarmed {
        (Status::Failed, reason.clone())
    } else if let Some(index) = step {
        (
            Status::Failed,
            format!("step {} did not do what it should: {}", index + 1, recording.steps[index].detail),
        )
    } else if let Some(Err(reason)) = &recording.end {
        (Status::Failed, reason.clone())
    } else if !left.is_empty() {
        (Status::Failed, format!("its modules are gone and left behind: {}", left.join(", ")))
    } else if let Some(reason) = unreadable {
        (Status::LabError, reason)
    } else if !recording.trace && recording.end.is_none() {
        (Status::LabError, "there is no trace to judge".to_owned())
    } else {
        return Verdict::of(expectations);
    };
    Verdict { status, reason, expectations }
}

/// The splat that a verdict is named after: the first of the worst that are not allowed.
fn worst(splats: &[Splat]) -> Option<&Splat> {
    let rank = |splat: &&Splat| match splat.status {
        Status::Panic => 0,
        Status::Oops => 1,
        _ => 2,
    };
    splats.iter().filter(|splat| !splat.allowed).min_by_key(rank)
}

/// How a panic reads that is only what became of an oops: of PID 1's, of one in an interrupt, of any
/// where panic_on_oops is set.
const CONSEQUENCES: [&str; 3] = ["Attempted to kill init", "Oops", "Fatal exception"];

fn of_death(death: &Death, splats: &[Splat]) -> Status {
    match death {
        Death::Panic { message, .. } => {
            let consequence = CONSEQUENCES.iter().any(|begins| message.starts_with(begins));
            let oops = splats.iter().any(|splat| splat.status == Status::Oops);
            if consequence && oops { Status::Oops } else { Status::Panic }
        }
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
    use crate::{
        recording::Left,
        report::StepResult,
        verdict::{OutcomeStatus, find_splats},
    };
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
        let splats = |log: &str| Recording { splats: find_splats(log), ..whole() };
        const WARNING: &str = "[ 1.0] WARNING: CPU: 0 PID: 1 at kernel/trace/ftrace.c:1\n";
        check(splats(WARNING), vec![outcome(Passed)], Status::Splat, "ftrace.c:1");
        let oops = format!("{WARNING}[ 2.0] Internal error: Oops: 0000000096000004\n");
        check(splats(&oops), vec![outcome(Passed)], Status::Oops, "Internal error");
        let mut allowed = splats(WARNING);
        allowed.splats[0].allowed = true;
        check(allowed, vec![outcome(Passed)], Status::Passed, "");
        let left = |fails| Recording { left: vec![Left { text: "hook f".into(), fails }], ..whole() };
        check(left(true), vec![outcome(Passed)], Status::Failed, "left behind: hook f");
        check(left(false), vec![outcome(Passed)], Status::Passed, "");
    }

    #[test]
    fn a_death_has_a_name() {
        let dead = |death| Recording { death: Some((death, "step 2".into())), ..whole() };
        let after = Duration::from_secs(3);
        let panic = |message: &str| Death::Panic { message: message.into(), dumped: Ok(()) };
        let of_init = || panic("Attempted to kill init! exitcode=0x0b");
        check(dead(of_init()), vec![], Status::Panic, "Attempted to kill init");
        let splats = find_splats("Unable to handle kernel NULL pointer dereference at virtual address 0\n");
        check(Recording { splats, ..dead(of_init()) }, vec![], Status::Oops, "Attempted to kill init");
        check(dead(panic("sysrq")), vec![], Status::Panic, "sysrq, during step 2");
        check(
            dead(Death::Deadline { after, scale: 1.0, request: "x".into() }),
            vec![],
            Status::Hang,
            "deadline of 3 s passed",
        );
        check(
            dead(Death::PoweredOff { console: String::new() }),
            vec![],
            Status::LostGuest,
            "powered itself off",
        );
        check(dead(Death::Lab(anyhow::anyhow!("disk full"))), vec![], Status::LabError, "disk full");
    }

    #[test]
    fn a_death_that_was_wanted_is_judged_like_anything_else() {
        let dead = |end: Option<Result<(), &str>>| {
            let end = end.map(|end| end.map_err(str::to_owned));
            let death = Death::Panic { message: "x".into(), dumped: Ok(()) };
            Recording { death: Some((death, "step 1".into())), end, ..Recording::default() }
        };
        check(dead(Some(Ok(()))), vec![], Status::Passed, "");
        check(dead(Some(Err("no `f`"))), vec![], Status::Failed, "no `f`");
        check(dead(None), vec![], Status::Panic, "x, during step 1");
        let broken = StepResult { detail: "no".into(), ..StepResult::default() };
        check(Recording { steps: vec![broken], ..dead(Some(Ok(()))) }, vec![], Status::Failed, "step 1");
        const WARNING: &str = "[ 1.0] WARNING: CPU: 0 PID: 1 at kernel/trace/ftrace.c:1\n";
        let warned = Recording { splats: find_splats(WARNING), ..dead(Some(Ok(()))) };
        check(warned, vec![], Status::Splat, "ftrace.c:1");
        let lives = Recording { end: Some(Err("it lives".into())), ..whole() };
        check(lives, vec![], Status::Failed, "it lives");
    }

    #[test]
    fn a_trace_that_cannot_be_read_is_no_pass() {
        let verdict = conclude(&whole(), Err(anyhow::anyhow!("cut short")));
        assert_eq!(verdict.status, Status::LabError);
    }
}
