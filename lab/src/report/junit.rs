//! `junit.xml`, for dashboards of CI systems.

use crate::{
    host::whole::write_whole,
    results::{Results, ScenarioResult, Status},
    selftest::{Case, CaseStatus},
};
use anyhow::Result;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use std::{path::Path, time::Duration};

/// Writes `junit.xml`: a suite per kernel, a case per scenario, each followed by a case per test that its
/// steps ran.
pub fn write_junit(results: &Results, run: &Path) -> Result<()> {
    write_whole(&run.join("junit.xml"), junit(results)?)
}

fn junit(results: &Results) -> Result<String> {
    let mut report = Report::new("ftrace-lab");
    for kernel in &results.kernels {
        let mut suite = TestSuite::new(&kernel.name);
        let scenarios = results.scenarios.iter().filter(|scenario| scenario.kernel == kernel.name);
        suite.add_test_cases(scenarios.flat_map(|scenario| [vec![case(scenario)], tests(scenario)].concat()));
        report.add_test_suite(suite);
    }
    // These are not XML characters; the writer removes all others that are not.
    let xml = report.to_string()?.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
    Ok(without_skipped(&xml))
}

/// Removes the total number of skipped tests: the schema that Jenkins' xUnit plugin validates against has
/// this attribute on suites only.
fn without_skipped(xml: &str) -> String {
    let attribute = || {
        let begin = xml.find("<testsuites ")?;
        let end = begin + xml[begin..].find('>')?;
        let from = begin + xml[begin..end].find(" skipped=\"")?;
        let to = from + " skipped=\"".len();
        Some((from, to + xml[to..end].find('"')? + 1))
    };
    match attribute() {
        Some((from, to)) => format!("{}{}", &xml[..from], &xml[to..]),
        None => xml.to_owned(),
    }
}

fn case(scenario: &ScenarioResult) -> TestCase {
    let mut status = match scenario.status {
        Status::Passed => TestCaseStatus::success(),
        Status::Unsupported | Status::KnownBug => TestCaseStatus::skipped(),
        Status::Failed | Status::Inconclusive => TestCaseStatus::non_success(NonSuccessKind::Failure),
        _ => TestCaseStatus::non_success(NonSuccessKind::Error),
    };
    if scenario.status != Status::Passed {
        status.set_message(format!(
            "{}: {}",
            scenario.status,
            scenario.reason.lines().next().unwrap_or_default()
        ));
        status.set_type(scenario.status.to_string());
        status.set_description(scenario.reason.clone());
    }
    let mut case = TestCase::new(scenario.label(), status);
    case.set_classname(&scenario.kernel);
    case.set_time(Duration::try_from_secs_f64(scenario.seconds).unwrap_or_default());
    case
}

/// Returns the cases of the tests that the scenario's steps ran.
fn tests(scenario: &ScenarioResult) -> Vec<TestCase> {
    let tests = scenario.steps.iter().flat_map(|step| &step.cases);
    tests.map(|test| test_case(scenario, test)).collect()
}

fn test_case(scenario: &ScenarioResult, test: &Case) -> TestCase {
    let mut status = match test.status {
        CaseStatus::Passed => TestCaseStatus::success(),
        CaseStatus::Skipped | CaseStatus::LeftOut | CaseStatus::KnownFailure => TestCaseStatus::skipped(),
        CaseStatus::Failed | CaseStatus::TimedOut | CaseStatus::UnexpectedPass => {
            TestCaseStatus::non_success(NonSuccessKind::Failure)
        }
    };
    if test.status != CaseStatus::Passed {
        status.set_message(format!("{}: {}", test.status, test.detail.lines().next().unwrap_or_default()));
        status.set_type(test.status.to_string());
        status.set_description(test.detail.clone());
    }
    let mut case = TestCase::new(format!("{}::{}", scenario.label(), test.name), status);
    case.set_classname(&scenario.kernel);
    case.set_time(Duration::try_from_secs_f64(test.seconds).unwrap_or_default());
    case
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{KernelInfo, StepResult, fixture};

    #[test]
    fn each_test_of_a_step_is_a_case() {
        let test = |name: &str, status| Case {
            name: name.to_owned(),
            status,
            seconds: 0.5,
            detail: "why <it> did".to_owned(),
            output: None,
        };
        let mut scenario = fixture::result("selftests/x", Status::Failed);
        let cases = vec![
            test("ftrace/a.tc", CaseStatus::Passed),
            test("ftrace/b.tc", CaseStatus::UnexpectedPass),
            test("ftrace/c.tc", CaseStatus::Skipped),
        ];
        scenario.steps = vec![StepResult { cases, ..StepResult::default() }];
        let mut results = fixture::results(vec![scenario]);
        let (source_version, config_hash) = (String::new(), String::new());
        results.kernels = vec![KernelInfo { name: "6.12".to_owned(), source_version, config_hash }];
        let xml = junit(&results).unwrap();
        let expect = [
            "tests=\"4\" skipped=\"1\" errors=\"0\" failures=\"2\"",
            "<testcase name=\"selftests/x::ftrace/a.tc\" classname=\"6.12\" time=\"0.500\"/>",
            "<failure message=\"passed unexpectedly: why &lt;it&gt; did\" type=\"passed unexpectedly\">",
            "<skipped message=\"skipped: why &lt;it&gt; did\" type=\"skipped\">",
        ];
        for expect in expect {
            assert!(xml.contains(expect), "`{expect}` is not in\n{xml}");
        }
    }
}
