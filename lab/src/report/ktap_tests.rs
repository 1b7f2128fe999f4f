use super::*;
use crate::results::{KernelInfo, StepResult, fixture};

fn kernel(name: &str) -> KernelInfo {
    KernelInfo { name: name.to_owned(), source_version: String::new(), config_hash: String::new() }
}

#[test]
fn kernels_scenarios_and_their_tests_are_nested() {
    let mut failed = fixture::result("selftests/x", Status::Failed);
    failed.reason = "found 3 # not 5\nmore".to_owned();
    let case = |name: &str, status| Case {
        name: name.to_owned(),
        status,
        seconds: 0.5,
        detail: "why".to_owned(),
        output: None,
    };
    let cases = vec![case("a.tc", CaseStatus::Passed), case("b.tc", CaseStatus::Skipped)];
    failed.steps = vec![StepResult { cases, ..StepResult::default() }];
    let lacks = ScenarioResult {
        reason: "it lacks CONFIG_X".to_owned(),
        ..fixture::result("probes/a", Status::Unsupported)
    };
    let mut results = fixture::results(vec![failed, lacks, fixture::result("probes/b", Status::Passed)]);
    results.kernels = vec![kernel("6.12")];
    let expect = "\
KTAP version 1
1..1
    KTAP version 1
    # Subtest: 6.12
    1..3
        KTAP version 1
        # Subtest: selftests/x
        1..2
        ok 1 a.tc
        # why
        ok 2 b.tc # SKIP skipped: why
    # failed: found 3 ♯ not 5
    # more
    not ok 1 selftests/x
    ok 2 probes/a # SKIP unsupported: it lacks CONFIG_X
    ok 3 probes/b
not ok 1 6.12
";
    assert_eq!(ktap(&results), expect);
}

#[test]
fn nothing_that_a_guest_says_is_a_test_line() {
    let mut result = fixture::result("a", Status::Failed);
    result.reason = "x\r\nnot ok 9 evil\n\u{1b}[2J1..5".to_owned();
    let mut results = fixture::results(vec![result]);
    results.kernels = vec![kernel("6.12")];
    let text = ktap(&results);
    let tests: Vec<_> = text.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    assert_eq!(tests.len(), 6, "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
}
