use super::*;
use crate::{
    machine::Death,
    recording::{Backtrace, LeftoverKind},
    results::OutcomeStatus,
};
use std::time::Duration;

/// A scenario that asks for nothing in particular.
const PLAIN: &str = "steps: [ { read: trace } ]";

const WARNING: &str = "[ 1.0] WARNING: CPU: 0 PID: 1 at kernel/trace/ftrace.c:1\n";

fn whole() -> Recording {
    Recording { trace: true, ..Recording::default() }
}

fn dead(death: Death) -> Recording {
    Recording { trace: true, ..Recording::of_death(death, "step 2") }
}

fn panic(message: &str) -> Death {
    Death::Panic { message: message.into(), dumped: Ok(()) }
}

fn broken(detail: &str) -> StepResult {
    StepResult { detail: detail.into(), ..StepResult::default() }
}

fn outcome(status: OutcomeStatus) -> Outcome {
    Outcome { text: "count".into(), status, detail: String::new() }
}

fn scenario(yaml: &str) -> Scenario {
    Scenario::parse(Path::new("x.yaml"), &format!("summary: x\n{yaml}")).unwrap()
}

fn concluded(yaml: &str, recording: Recording, outcomes: Vec<Outcome>) -> Conclusion {
    of_facts(&scenario(yaml), recording, Ok(outcomes))
}

#[track_caller]
fn check_with(yaml: &str, recording: Recording, outcomes: Vec<Outcome>, status: Status, reason: &str) {
    let verdict = concluded(yaml, recording, outcomes).verdict;
    assert_eq!(verdict.status, status);
    assert!(verdict.reason.contains(reason), "`{reason}` is not in `{}`", verdict.reason);
}

#[track_caller]
fn check(recording: Recording, outcomes: Vec<Outcome>, status: Status, reason: &str) {
    check_with(PLAIN, recording, outcomes, status, reason);
}

#[test]
fn only_a_whole_recording_whose_expectations_hold_is_a_pass() {
    use OutcomeStatus::{Failed, Inconclusive, Passed};
    check(whole(), vec![outcome(Passed)], Status::Passed, "");
    check(Recording::default(), vec![], Status::LabError, "no trace");
    check(whole(), vec![outcome(Passed), outcome(Failed)], Status::Failed, "count");
    check(whole(), vec![outcome(Inconclusive), outcome(Failed)], Status::Failed, "count");
    check(whole(), vec![outcome(Passed), outcome(Inconclusive)], Status::Inconclusive, "count");
    let steps = vec![broken("expected EBUSY, found success")];
    check(Recording { steps, ..whole() }, vec![], Status::Failed, "step 1 failed");
    check(Recording { unarmed: Some("ENOENT".into()), ..whole() }, vec![], Status::Failed, "ENOENT");
    let logged = |log: &str| Recording { kernel_log: log.into(), ..whole() };
    check(logged(WARNING), vec![outcome(Passed)], Status::Splat, "ftrace.c:1");
    let oops = format!("{WARNING}[ 2.0] Internal error: Oops: 0000000096000004\n");
    check(logged(&oops), vec![outcome(Passed)], Status::Oops, "Internal error");
    check_with(
        &format!("{PLAIN}\nallow: [ftrace.c]"),
        logged(WARNING),
        vec![outcome(Passed)],
        Status::Passed,
        "",
    );
    let hook = Leftover { kind: LeftoverKind::Hook, entry: "f".into(), step: None };
    let left = || Recording { leftovers: vec![hook.clone()], ..whole() };
    let loads = "steps: [ { load: m }, { unload: m } ]";
    check_with(loads, left(), vec![outcome(Passed)], Status::Failed, "left behind: hook f");
    check(left(), vec![outcome(Passed)], Status::Passed, "");
}

#[test]
fn a_death_has_a_name() {
    let after = Duration::from_secs(3);
    let of_init = || panic("Attempted to kill init! exitcode=0x0b");
    check(dead(of_init()), vec![], Status::Panic, "Attempted to kill init");
    let kernel_log = "Unable to handle kernel NULL pointer dereference at virtual address 0\n".to_owned();
    check(Recording { kernel_log, ..dead(of_init()) }, vec![], Status::Oops, "Attempted to kill init");
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
    const DIES: &str = "steps: [ { load: m } ]\nexpect_panic: { panic: x }";
    const BACKTRACE: &str = "steps: [ { load: m } ]\nexpect_panic: { panic: x, backtrace: [f] }";
    let died = || Recording { steps: vec![broken("it did not end")], trace: false, ..dead(panic("x")) };
    check_with(DIES, died(), vec![], Status::Passed, "");
    let traced = |backtrace| Recording { backtrace: Some(backtrace), ..died() };
    let missing = || Backtrace::Missing("no task panicked".into());
    check_with(BACKTRACE, traced(missing()), vec![], Status::Failed, "no task panicked");
    let unread = || Backtrace::Unread("no drgn".into());
    check_with(BACKTRACE, traced(unread()), vec![], Status::LabError, "no drgn, during reading");
    check(died(), vec![], Status::Panic, "x, during step 2");
    let other = || Recording { steps: vec![broken("")], trace: false, ..dead(panic("y")) };
    check_with(DIES, other(), vec![], Status::Panic, "y, during step 2");
    // In an earlier step.
    let two = DIES.replace("{ load: m }", "{ load: m }, { load: n }");
    check_with(&two, died(), vec![], Status::Panic, "x, during step 2");
    let earlier = Recording { steps: vec![broken("no"), broken("it did not end")], ..died() };
    check_with(&two, earlier, vec![], Status::Failed, "step 1");
    let warned = Recording { kernel_log: WARNING.into(), ..died() };
    check_with(DIES, warned, vec![], Status::Splat, "ftrace.c:1");
    check_with(DIES, whole(), vec![], Status::Failed, "still running");
}

#[test]
fn a_panic_that_was_wanted_shows_as_such() {
    let yaml = "steps: [ { load: m } ]\nexpect_panic: { panic: x }";
    let kernel_log = "[ 1.0] Kernel panic - not syncing: x\n".to_owned();
    let died = Recording { steps: vec![broken("it did not end")], kernel_log, ..dead(panic("x")) };
    let conclusion = concluded(yaml, died, vec![]);
    assert_eq!(conclusion.verdict.status, Status::Passed);
    assert!(conclusion.steps[0].passed);
    assert_eq!(conclusion.steps[0].detail, "the kernel panicked as required: x");
    assert!(conclusion.splats[0].allowed);
}

#[test]
fn a_trace_that_cannot_be_read_is_no_pass() {
    let verdict = of_facts(&scenario(PLAIN), whole(), Err(anyhow::anyhow!("cut short"))).verdict;
    assert_eq!(verdict.status, Status::LabError);
}
