//! Tests of which failures are the same.

use super::*;
use crate::{
    results::{Outcome, StepResult, fixture::result},
    splat::find,
};

const SCENARIO: &str = "summary: x
steps:
  - read: trace_clock
  - { workload: eventfd 1 }
expect:
  - count: { event: e, is: 1 }
  - count: { event: f, is: 2 }
";

fn of_expectation(index: usize, detail: &str) -> ScenarioResult {
    let outcome = |number: usize| {
        let broken = number == index;
        let status = if broken { OutcomeStatus::Failed } else { OutcomeStatus::Passed };
        Outcome { text: format!("expect[{number}]"), status, detail: detail.to_owned() }
    };
    let reason = format!("expect[{index}]: {detail}");
    ScenarioResult { reason, expectations: (0..2).map(outcome).collect(), ..result("s", Status::Failed) }
}

fn failure(result: &ScenarioResult) -> Failure {
    Failure::of(result, SCENARIO).unwrap()
}

fn check(one: &ScenarioResult, two: &ScenarioResult, same: bool) {
    let (one, two) = (failure(one), failure(two));
    assert_eq!(one.is_same(&two), same, "{one:?}\n{two:?}");
}

#[test]
fn an_expectation_is_known_by_what_is_written_and_what_was_found() {
    let first = of_expectation(0, "found 3 at 0xffff8000804ad2c8, expected 1");
    check(&first, &of_expectation(0, "found 4 at 0xffff8000804ad111, expected 1"), true);
    check(&first, &of_expectation(1, "found 3 at 0xffff8000804ad2c8, expected 1"), false);
    check(&first, &of_expectation(0, "there is no such event"), false);
    check(&first, &of_expectation(0, "found 0, expected 1"), false);
    let item = Item { number: 1, text: "count: { event: e, is: 1 }".into() };
    assert_eq!(failure(&first).broken, Broken::Expectation(item));
    // The same one at a different position, as in a minimized scenario.
    let smaller = SCENARIO.replace("  - count: { event: e, is: 1 }\n", "");
    let second = of_expectation(1, "found 3");
    let mut moved = second.clone();
    moved.expectations.remove(0);
    moved.expectations[0].text = "expect[0]".into();
    moved.reason = "expect[0]: found 3".into();
    let moved = Failure::of(&moved, &smaller).unwrap();
    assert!(moved.is_same(&failure(&second)), "{moved:?}");
}

#[test]
fn exactly_the_same_has_the_same_numbers_but_for_times_and_addresses() {
    let check = |one: &str, two: &str, exactly: bool| {
        let (one, two) = (failure(&of_expectation(0, one)), failure(&of_expectation(0, two)));
        assert!(one.is_same(&two));
        assert_eq!(one.is_exactly(&two), exactly, "{one:?}\n{two:?}");
    };
    check("found 5, expected 6", "found 5, expected 6", true);
    check("found 5, expected 6", "found 4, expected 6", false);
    check("took 12 ms at 0xffff8000804ad2c8", "took 13 ms at 0xffff8000804ad111", true);
    check("took 1.5 s, then 2", "took 2.25 s, then 2", true);
    check("took 1.5 s, then 2", "took 1.5 s, then 3", false);
}

#[test]
fn a_step_comes_before_expectations() {
    let broken = |detail: &str| {
        let held = StepResult { passed: true, ..StepResult::default() };
        let step = StepResult { text: "workload: eventfd 1".into(), detail: detail.into(), ..held.clone() };
        let steps = vec![held, StepResult { passed: false, ..step }];
        let reason = format!("step 2 failed: {detail}");
        ScenarioResult { steps, reason, ..of_expectation(0, "found 3") }
    };
    let first = broken("it exited with 2, expected 0");
    check(&first, &broken("it exited with 7, expected 0"), true);
    check(&first, &broken("it was killed by SIGSEGV"), false);
    check(&first, &of_expectation(0, "found 3"), false);
    assert!(matches!(failure(&first).broken, Broken::Step(Item { number: 2, .. })));
}

#[test]
fn a_splat_is_known_by_its_top_frames() {
    let warned = |task: u32, function: &str| {
        let log = format!(
            "[ 1.{task}] WARNING: CPU: {task} PID: {task} at kernel/trace/ftrace.c:1 {function}+0x10/0x20\n\
             [ 1.{task}] Call trace:\n[ 1.{task}]  {function}+0x1{task}/0x20\n[ 1.{task}]  vfs_write+0x4/0x8\n"
        );
        ScenarioResult { splats: find(&log), ..result("s", Status::Splat) }
    };
    check(&warned(1, "f"), &warned(2, "f"), true);
    check(&warned(1, "f"), &warned(1, "g"), false);
    let mut allowed = warned(1, "f");
    allowed.splats.extend(warned(1, "g").splats);
    allowed.splats[0].allowed = true;
    check(&allowed, &warned(1, "g"), true);
}

#[test]
fn a_hang_is_known_by_its_step_and_what_was_waited_for() {
    let hang = |reason: &str| ScenarioResult { reason: reason.into(), ..result("s", Status::Hang) };
    let first =
        hang("the deadline of 3 s passed, waiting for the end of a process, during step 2 (`{ x: 1 }`)");
    let waited = "the deadline of 3 s (4.5 s on this guest) passed, waiting for";
    check(&first, &hang(&format!("{waited} the end of a process, during step 2 (`x: 1`)")), true);
    check(&first, &hang(&format!("{waited} the end of a process, during step 1 (`x: 1`)")), false);
    check(&first, &hang(&format!("{waited} a module to load, during step 2 (`x: 1`)")), false);
    check(&first, &ScenarioResult { status: Status::LostGuest, ..first.clone() }, false);
    let item = Item { number: 2, text: "workload: eventfd 1".into() };
    assert_eq!(failure(&first).broken, Broken::Step(item));
    let off = hang("the guest powered itself off\n[ 1.0] console, during booting");
    assert_eq!(
        (failure(&off).broken, failure(&off).finding.as_str()),
        (Broken::Run, "the guest powered itself off")
    );
}

#[test]
fn only_failures_have_one() {
    for status in Status::ALL {
        let fails = !status.is_good() && status != Status::LabError;
        assert_eq!(Failure::of(&result("s", status), SCENARIO).is_some(), fails, "{status}");
    }
}
