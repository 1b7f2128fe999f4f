//! `junit.xml`, for the dashboards of CI systems.

use super::{Results, ScenarioResult, place::write_whole};
use crate::verdict::Status;
use anyhow::Result;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use std::{path::Path, time::Duration};

/// Writes `junit.xml`: a suite for each kernel, a case for each scenario.
pub fn write_junit(results: &Results, run: &Path) -> Result<()> {
    write_whole(&run.join("junit.xml"), junit(results)?.as_bytes())
}

fn junit(results: &Results) -> Result<String> {
    let mut report = Report::new("ftrace-lab");
    for kernel in &results.kernels {
        let mut suite = TestSuite::new(&kernel.name);
        let scenarios = results.scenarios.iter().filter(|scenario| scenario.kernel == kernel.name);
        suite.add_test_cases(scenarios.map(case));
        report.add_test_suite(suite);
    }
    Ok(report.to_string()?)
}

fn case(scenario: &ScenarioResult) -> TestCase {
    let mut status = match scenario.status {
        Status::Passed => TestCaseStatus::success(),
        Status::Unsupported => TestCaseStatus::skipped(),
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
    case.set_time(Duration::from_secs_f64(scenario.seconds));
    case
}
