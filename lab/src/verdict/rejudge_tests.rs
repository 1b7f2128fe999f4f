use super::*;
use crate::{
    machine::Death,
    recording::{Backtrace, Leftover, LeftoverKind},
    results::{RECORDING, Status, StepResult, TRACE},
};
use std::{fs, time::Duration};

const STEPS: &str = "steps: [ { load: m }, { unload: m } ]";
const WARNING: &str = "[ 1.0] WARNING: CPU: 0 PID: 1 at kernel/trace/ftrace.c:1\n";

/// A scenario with this expectation about the events of the recorded trace.
fn expecting(condition: &str) -> String {
    let trace = "trace: { events: [ { event: sched:sched_switch } ] }";
    format!("{STEPS}\n{trace}\nexpect: [ {{ count: {{ event: sched:sched_switch, {condition} }} }} ]")
}

fn store(yaml: &str) -> (tempfile::TempDir, Scenario) {
    let directory = tempfile::tempdir().unwrap();
    let yaml = format!("summary: x\n{yaml}\n");
    let path = directory.path().join(SCENARIO);
    fs::write(&path, yaml).unwrap();
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/trace/kprobes.dat");
    fs::copy(trace, directory.path().join(TRACE)).unwrap();
    (directory, Scenario::load(&path).unwrap())
}

/// Stores a recording, and checks that it has the same verdict when it is judged again.
#[track_caller]
fn check(yaml: &str, recording: Recording, status: Status, reason: &str) {
    let (directory, scenario) = store(yaml);
    let recording = recording.stored(directory.path());
    let verdict = conclude(&scenario, recording, directory.path(), &Binaries::default()).verdict;
    assert_eq!(verdict.status, status, "{}", verdict.reason);
    assert!(verdict.reason.contains(reason), "`{reason}` is not in `{}`", verdict.reason);
    assert_eq!(judge_again(directory.path(), None).unwrap(), verdict);
    assert_eq!(judge_again(directory.path(), Some(&scenario)).unwrap(), verdict);
}

fn whole() -> Recording {
    let step = || StepResult { text: "load: m".into(), passed: true, ..StepResult::default() };
    Recording { trace: true, steps: vec![step(), step()], ..Recording::default() }
}

fn broken() -> StepResult {
    StepResult { detail: "expected EBUSY, found success".into(), ..StepResult::default() }
}

fn dead(death: Death) -> Recording {
    Recording { steps: vec![broken()], ..Recording::of_death(death, "step 1 (`load: m`)") }
}

fn panic() -> Recording {
    dead(Death::Panic { message: "x".into(), dumped: Ok(()) })
}

#[test]
fn a_run_and_its_stored_files_have_the_same_verdict() {
    check(&expecting("at_least: 1"), whole(), Status::Passed, "");
    check(&expecting("is: 0"), whole(), Status::Failed, "expected");
    let step = || Recording { steps: vec![broken()], ..whole() };
    check(&expecting("at_least: 1"), step(), Status::Failed, "step 1 failed: ");
    let unarmed = || Recording { unarmed: Some("cannot write `p:x`: ENOENT".into()), ..Recording::default() };
    check(STEPS, unarmed(), Status::Failed, "ENOENT");
    check(STEPS, Recording::default(), Status::LabError, "no trace");
}

#[test]
fn so_have_splats_and_leftovers() {
    let warned = || Recording { kernel_log: WARNING.into(), ..whole() };
    check(STEPS, warned(), Status::Splat, "ftrace.c:1");
    check(&format!("{STEPS}\nallow: [ftrace.c]"), warned(), Status::Passed, "");
    let hook = Leftover { kind: LeftoverKind::Hook, entry: "vfs_write (1)".into(), step: None };
    let left = || Recording { leftovers: vec![hook.clone()], ..whole() };
    check(STEPS, left(), Status::Failed, "hook vfs_write (1)");
    check(&format!("{STEPS}\nmay_leave: [hook]"), left(), Status::Passed, "");
    let loaded = || Recording { modules: ["ftracehook".to_owned()].into(), ..left() };
    check(STEPS, loaded(), Status::Passed, "");
}

#[test]
fn so_has_the_end_of_a_machine() {
    let after = Duration::from_secs(3);
    for (death, status, reason) in [
        (
            Death::Deadline { after, scale: 1.0, request: "a reply".into() },
            Status::Hang,
            "waiting for a reply",
        ),
        (Death::PoweredOff { console: "bye".into() }, Status::LostGuest, "bye, during step 1"),
        (Death::Rebooted, Status::LostGuest, "rebooted"),
        (
            Death::QemuEnded { status: "signal 9".into(), last_words: String::new() },
            Status::LostGuest,
            "signal 9",
        ),
        (Death::AgentLost("silence".into()), Status::LostGuest, "silence"),
        (Death::NoBoot { after, console: String::new() }, Status::LostGuest, "within 3 s of boot"),
        (Death::Interrupted, Status::LabError, "interrupted"),
        (Death::Lab(anyhow::anyhow!("disk full")), Status::LabError, "disk full"),
    ] {
        check(STEPS, dead(death), status, reason);
    }
    check(STEPS, panic(), Status::Panic, "the kernel panicked: x, during step 1");
}

#[test]
fn so_has_a_required_panic() {
    const DIES: &str = "steps: [ { load: m } ]\nexpect_panic: { panic: x, backtrace: [f] }";
    let with = |backtrace| Recording { backtrace: Some(backtrace), ..panic() };
    let scene = |function: &str| {
        let frames = format!(r#"[ {{ "symbol": "{function}", "offset": 0, "size": 4 }} ]"#);
        let json = format!(r#"{{ "comm": "init", "pid": 1, "cpu": 0, "frames": {frames} }}"#);
        Backtrace::Found(serde_json::from_str(&json).unwrap())
    };
    check(DIES, with(scene("f")), Status::Passed, "");
    check(DIES, with(scene("g")), Status::Failed, "`f`");
    check(DIES, with(Backtrace::Missing("no task panicked".into())), Status::Failed, "no task panicked");
    check(DIES, with(Backtrace::Unread("no drgn".into())), Status::LabError, "no drgn");
    check("steps: [ { load: m } ]\nexpect_panic: { panic: y }", panic(), Status::Panic, "panicked: x");
    check(
        "steps: [ { read: trace } ]\nexpect_panic: { panic: x }",
        Recording { steps: vec![], ..whole() },
        Status::Failed,
        "panic",
    );
}

#[test]
fn another_scenario_judges_everything_but_the_steps() {
    let (directory, _) = store(STEPS);
    let hook = Leftover { kind: LeftoverKind::Hook, entry: "vfs_write (1)".into(), step: None };
    whole().stored(directory.path());
    let check = |yaml: &str, status| {
        let scenario = Scenario::parse(Path::new("x.yaml"), &format!("summary: x\n{yaml}")).unwrap();
        assert_eq!(judge_again(directory.path(), Some(&scenario)).unwrap().status, status, "{yaml}");
    };
    check(&expecting("is: 0"), Status::Failed);
    check(&expecting("at_least: 1"), Status::Passed);
    Recording { kernel_log: WARNING.into(), leftovers: vec![hook], ..whole() }.stored(directory.path());
    check(STEPS, Status::Splat);
    check(&format!("{STEPS}\nallow: [ftrace.c]"), Status::Failed);
    // The steps that ran decide whether a module was unloaded.
    check("steps: [ { read: trace } ]\nallow: [ftrace.c]", Status::Failed);
    check("steps: [ { read: trace } ]\nallow: [ftrace.c]\nmay_leave: [hook]", Status::Passed);
}

#[test]
fn without_facts_expectations_decide() {
    let (directory, _) = store(&expecting("at_least: 1"));
    Recording { kernel_log: WARNING.into(), steps: vec![broken()], ..whole() }.stored(directory.path());
    assert_eq!(judge_again(directory.path(), None).unwrap().status, Status::Splat);
    fs::remove_file(directory.path().join(RECORDING)).unwrap();
    assert_eq!(judge_again(directory.path(), None).unwrap().status, Status::Passed);
    fs::remove_file(directory.path().join(TRACE)).unwrap();
    assert!(judge_again(directory.path(), None).is_err());
}

#[test]
fn a_trace_that_is_not_there_is_a_verdict() {
    let (directory, _) = store(STEPS);
    whole().stored(directory.path());
    fs::remove_file(directory.path().join(TRACE)).unwrap();
    let verdict = judge_again(directory.path(), None).unwrap();
    assert_eq!(verdict.status, Status::LabError);
    assert!(verdict.reason.contains("cannot read the trace"), "{}", verdict.reason);
}

#[test]
fn links_among_the_stored_files_are_refused() {
    for name in [SCENARIO, TRACE, RECORDING, "kernel.log", "files.json"] {
        let (directory, _) = store(STEPS);
        whole().stored(directory.path());
        judge_again(directory.path(), None).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let moved = elsewhere.path().join("moved");
        fs::rename(directory.path().join(name), &moved).unwrap();
        std::os::unix::fs::symlink(moved, directory.path().join(name)).unwrap();
        let refused = match judge_again(directory.path(), None) {
            Ok(verdict) => verdict.reason,
            Err(error) => format!("{error:#}"),
        };
        assert!(refused.contains(&format!("{name}`: it is a link")), "{name}: {refused}");
    }
}
