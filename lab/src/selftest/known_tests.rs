//! The list of known failures, and results compared with it.

use super::*;
use Outcome::{Failed, Incomplete, Passed, Skipped, TimedOut};

fn entries(yaml: &str) -> Vec<Entry> {
    Known::parse(yaml).unwrap().entries
}

const FAILS: &str = "[{ test: ftrace/a.tc, kernel: '6.12', result: fails, part: whole, reason: why }]";
const PART: &str = "[{ test: ftrace/a.tc, kernel: '6.12', result: fails, part: instance, reason: why }]";
const LEFT_OUT: &str = "[{ test: ftrace/a.tc, kernel: '6.12', result: left_out, reason: why }]";

#[test]
fn the_list_has_to_be_true() {
    let check = |yaml: &str, results: &[(&str, Outcome)], expect: &[(&str, CaseStatus, &str)]| {
        let result = |(name, outcome): &(&str, Outcome)| TestResult {
            name: (*name).to_owned(),
            outcome: *outcome,
            detail: "said".to_owned(),
        };
        let held = hold("ftrace/a.tc", results.iter().map(result).collect(), &entries(yaml));
        assert_eq!(held.len(), expect.len(), "{yaml} {results:?}: {held:?}");
        for ((name, status, why), (expect_name, expect_status, expect_why)) in held.iter().zip(expect) {
            assert_eq!((name.as_str(), status), (*expect_name, expect_status), "{yaml} {results:?}");
            assert!(why.contains(expect_why), "{yaml} {results:?}: `{expect_why}` is not in `{why}`");
        }
    };
    use CaseStatus as Status;
    check("[]", &[("", Failed)], &[("", Status::Failed, "said")]);
    check("[]", &[("", Skipped)], &[("", Status::Skipped, "said")]);
    check("[]", &[("", Outcome::ExpectedFailure)], &[("", Status::KnownFailure, "said")]);
    check(FAILS, &[("", Failed)], &[("", Status::KnownFailure, "why")]);
    check(FAILS, &[("", Passed)], &[("", Status::UnexpectedPass, "remove its entry from the list")]);
    check(FAILS, &[("", Skipped)], &[("", Status::Failed, "known to fail (why), and it was skipped: said")]);
    check(FAILS, &[("", TimedOut)], &[("", Status::TimedOut, "known to fail (why), and it timed out")]);
    // An entry excuses one result of a program, and only a failure.
    check(
        FAILS,
        &[("", Failed), ("instance", Failed)],
        &[("", Status::KnownFailure, "why"), ("instance", Status::Failed, "said")],
    );
    check(
        FAILS,
        &[("", Failed), ("", Incomplete)],
        &[("", Status::KnownFailure, "why"), ("", Status::Failed, "and it did not end regularly: said")],
    );
    check(
        FAILS,
        &[("", Passed), ("instance", Failed)],
        &[("", Status::UnexpectedPass, "why"), ("instance", Status::Failed, "said")],
    );
    check(
        PART,
        &[("", Failed), ("instance", Failed)],
        &[("", Status::Failed, "said"), ("instance", Status::KnownFailure, "why")],
    );
    check(PART, &[("", Passed)], &[("", Status::Failed, "no result is called"), ("", Status::Passed, "")]);
    // An excluded test that a step names is judged like any other.
    check(LEFT_OUT, &[("", Passed)], &[("", Status::Passed, "said")]);
    check(LEFT_OUT, &[("", Failed)], &[("", Status::Failed, "said")]);
}

#[test]
fn an_entry_is_for_kernels_and_for_tests_that_are_there() {
    let known = Known::parse(
        "- { test: ftrace/test.d/a.tc, kernel: '>=6.12, <7.2', result: fails, part: whole, reason: why }\n\
         - { test: ptrace/b, kernel: '>=5.10', result: left_out, reason: why }\n",
    )
    .unwrap();
    let tests = ["ftrace/test.d/a.tc".to_owned(), "ftrace/test.d/c.tc".to_owned()];
    for version in [KernelVersion::new(6, 1, 0), KernelVersion::new(7, 2, 0)] {
        assert_eq!(known.of("ftrace", &version, &tests).unwrap(), []);
    }
    assert_eq!(known.of("ftrace", &KernelVersion::new(6, 12, 3), &tests).unwrap().len(), 1);
    let error = known.of("ftrace", &KernelVersion::new(6, 12, 3), &tests[1..]).unwrap_err().to_string();
    assert!(
        error.contains(
            "has `ftrace/test.d/a.tc`, which 6.12.3 does not have; the nearest is `ftrace/test.d/c.tc`"
        ),
        "{error}"
    );
    let twice = Known { entries: [&known.entries[..1], &known.entries[..1]].concat() };
    let error = twice.of("ftrace", &KernelVersion::new(6, 12, 3), &tests).unwrap_err().to_string();
    assert!(error.contains("twice"), "{error}");
}

#[test]
fn what_is_no_such_list_is_refused() {
    let check = |yaml: &str, expect: &str| {
        let error = format!("{:#}", Known::parse(yaml).unwrap_err());
        assert!(error.contains(expect), "`{expect}` is not in `{error}`");
    };
    let check_entry = |rest: &str, expect| check(&format!("[{{ test: ftrace/a.tc, {rest} }}]"), expect);
    check_entry("kernel: '6.12', result: fails, part: a", "missing field `reason`");
    check_entry("result: fails, part: a, reason: x", "missing field `kernel`");
    check_entry("kernel: '6.12', result: fails, reason: x", "`ftrace/a.tc` has no `part`, expected the name");
    check_entry("kernel: '6.12', result: left_out, part: a, reason: x", "is left out, and so has no `part`");
    check_entry("kernel: '6.12', result: fail, reason: x", "unknown variant `fail`");
    check_entry("kernel: '6.12', result: left_out, reason: x, why: y", "unknown field `why`");
    check("[{ test: ../a.tc, kernel: '6.12', result: left_out, reason: x }]", "a test's path");
}
