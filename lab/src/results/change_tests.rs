//! Tests of which results differ, and which difference is reported.

use super::*;
use crate::results::fixture::result;

fn step(text: &str, passed: bool, detail: &str) -> StepResult {
    StepResult { text: text.into(), passed, detail: detail.into(), ..StepResult::default() }
}

fn expectation(text: &str, status: OutcomeStatus, detail: &str) -> Outcome {
    Outcome { text: text.into(), status, detail: detail.into() }
}

fn scenario(status: Status, steps: &[StepResult], expectations: &[Outcome]) -> ScenarioResult {
    ScenarioResult { steps: steps.to_vec(), expectations: expectations.to_vec(), ..result("s", status) }
}

#[track_caller]
fn check(a: &ScenarioResult, b: &ScenarioResult, expect: Option<(&str, &str, &str)>) {
    let found = parting(a, b);
    let found = found.as_ref().map(|found| (found.at.as_str(), found.a.as_str(), found.b.as_str()));
    assert_eq!(found, expect);
}

#[test]
fn the_first_check_that_parts_them_is_told() {
    use OutcomeStatus::{Failed, Inconclusive, Passed};
    let held = scenario(Status::Passed, &[step("read", true, "")], &[expectation("count", Passed, "5")]);
    let broken = scenario(Status::Failed, &[step("read", true, "")], &[expectation("count", Failed, "3")]);
    let at = "expectation 1: count";
    check(&held, &broken, Some((at, "held: 5", "broken: 3")));
    let lost =
        scenario(Status::Inconclusive, &[step("read", true, "")], &[expectation("count", Inconclusive, "")]);
    check(&lost, &broken, Some((at, "inconclusive", "broken: 3")));
    let in_step = scenario(Status::Failed, &[step("read", false, "EBUSY")], &[]);
    check(&broken, &in_step, Some(("step 1: read", "held", "broken: EBUSY")));
    let hang = scenario(Status::Hang, &[], &[]);
    check(&hang, &in_step, Some(("step 1: read", "not reached", "broken: EBUSY")));
    let edited = scenario(Status::Failed, &[step("write", false, "EBUSY")], &[]);
    check(&edited, &in_step, Some(("step 1, a different one", "write", "read")));
}

#[test]
fn what_came_to_the_same_is_no_difference() {
    let passed = |detail| scenario(Status::Passed, &[step("read", true, detail)], &[]);
    check(&passed("1"), &passed("2"), None);
    let failed = |detail| scenario(Status::Failed, &[step("read", false, detail)], &[]);
    check(&failed("found ffff800080a0 after 0.31 s"), &failed("found ffff800081b0 after 0.29 s"), None);
    check(
        &failed("found 3"),
        &failed("found 4"),
        Some(("step 1: read", "broken: found 3", "broken: found 4")),
    );
    let unsupported =
        |reason: &str| ScenarioResult { reason: reason.into(), ..result("s", Status::Unsupported) };
    check(&unsupported("this one is 6.1"), &unsupported("this one is 5.10"), None);
    check(&unsupported("no KASAN"), &passed(""), Some(("verdict", "unsupported: no KASAN", "passed")));
}

#[test]
fn splats_part_by_their_fingerprints() {
    let splat = |print: &str| crate::splat::Splat {
        severity: crate::splat::Severity::Splat,
        kind: "warning".into(),
        title: "WARNING at x".into(),
        message: String::new(),
        fingerprint: print.into(),
        time: Some(1.0),
        task: String::new(),
        step: None,
        times: 1,
        allowed: false,
        registers: BTreeMap::new(),
        frames: Vec::new(),
    };
    let with = |print: &str| ScenarioResult { splats: vec![splat(print)], ..result("s", Status::Splat) };
    check(&with("a"), &with("a"), None);
    check(&with("a"), &with("b"), Some(("splat 1", "WARNING at x [a]", "WARNING at x [b]")));
    check(&result("s", Status::Passed), &with("b"), Some(("splat 1", "none", "WARNING at x [b]")));
}

fn on(kernel: &str, name: &str, status: Status) -> ScenarioResult {
    ScenarioResult { kernel: kernel.into(), ..result(name, status) }
}

#[test]
fn two_kernels_are_compared_by_name_alone_and_several_kernel_by_kernel() {
    let old =
        [on("6.1", "a", Status::Passed), on("6.1", "b", Status::Failed), on("6.1", "gone", Status::Passed)];
    let new =
        [on("6.12", "a", Status::Failed), on("6.12", "b", Status::Passed), on("6.12", "new", Status::Passed)];
    let refs = |results: &'static [ScenarioResult]| results.iter().collect::<Vec<_>>();
    let (old, new): (&'static [_], &'static [_]) = (Box::leak(Box::new(old)), Box::leak(Box::new(new)));
    let found = compare(&refs(old), &refs(new));
    assert_eq!(
        found.changes.iter().map(|change| change.name.as_str()).collect::<Vec<_>>(),
        ["a", "b", "new", "gone"]
    );
    assert_eq!(
        found.summary(),
        "0 unchanged, 1 worse in B, 1 better in B, 0 different, 1 only in B, 1 only in A"
    );
    assert!(
        found.changes[0].to_string().starts_with("a: passed in A, failed in B\n  verdict\n    A  passed\n")
    );
    let both: Vec<_> = old.iter().chain(new).collect();
    let found = compare(&both, &refs(new));
    assert_eq!((found.alike, found.changes.len()), (3, 3));
    assert_eq!(found.changes[0].to_string(), "a on 6.1: only in A, passed\n");
}

#[test]
fn of_repeats_the_failure_counts_and_times_are_told_where_they_changed_much() {
    let repeat = |repeat, status| ScenarioResult { repeat: Some(repeat), ..result("s", status) };
    let (pass, fail) = (repeat(1, Status::Passed), repeat(2, Status::Failed));
    assert_eq!(compare(&[&pass, &fail], &[&pass]).summary().split(',').nth(2), Some(" 1 better in B"));
    let took = |seconds| ScenarioResult { seconds, ..result("s", Status::Passed) };
    let check =
        |a, b, expect: usize| assert_eq!(compare(&[&took(a)], &[&took(b)]).paces.len(), expect, "{a} {b}");
    check(1.0, 1.9, 0);
    check(0.1, 0.5, 0);
    check(0.5, 1.1, 1);
    check(9.0, 3.0, 1);
}
