//! A test of a step, as it appears in the results.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The result of one of the tests of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// The test and, if it has several results, `: ` and the name of this one.
    pub name: String,
    /// Its status.
    pub status: CaseStatus,
    /// How long its program ran, in seconds of the host; of several results, only the first has it.
    pub seconds: f64,
    /// The reason, from the test or from the list of known failures.
    pub detail: String,
    /// The file with its output, relative to the scenario's directory; kept only for tests that did not
    /// simply pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// The status of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseStatus {
    /// It passed.
    Passed,
    /// It failed.
    Failed,
    /// It exceeded its deadline.
    TimedOut,
    /// It passed, but the list has it as failing.
    UnexpectedPass,
    /// It failed, as the list or the test itself expects.
    KnownFailure,
    /// It reports that it cannot run its test here.
    Skipped,
    /// The list excludes it, unless a step names it.
    LeftOut,
}

impl CaseStatus {
    /// All statuses, in the order in which they are counted.
    pub const ALL: [CaseStatus; 7] = [
        CaseStatus::Passed,
        CaseStatus::Failed,
        CaseStatus::TimedOut,
        CaseStatus::UnexpectedPass,
        CaseStatus::KnownFailure,
        CaseStatus::Skipped,
        CaseStatus::LeftOut,
    ];

    /// Returns whether a step with such a test can succeed.
    pub fn is_good(self) -> bool {
        !matches!(self, CaseStatus::Failed | CaseStatus::TimedOut | CaseStatus::UnexpectedPass)
    }
}

impl fmt::Display for CaseStatus {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            CaseStatus::Passed => "passed",
            CaseStatus::Failed => "failed",
            CaseStatus::TimedOut => "timed out",
            CaseStatus::UnexpectedPass => "passed unexpectedly",
            CaseStatus::KnownFailure => "known to fail",
            CaseStatus::Skipped => "skipped",
            CaseStatus::LeftOut => "left out",
        })
    }
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {} ({:.1} s)", self.name, self.status, self.seconds)?;
        if self.detail.is_empty() { Ok(()) } else { write!(out, ": {}", self.detail) }
    }
}

/// Returns the number of tests with each status: `23 passed, 1 failed`.
pub(crate) fn tally(cases: &[Case]) -> String {
    let count = |status: CaseStatus| cases.iter().filter(|case| case.status == status).count();
    let counted = CaseStatus::ALL.into_iter().map(|status| (count(status), status));
    let counted = counted.filter(|(count, _)| *count > 0).map(|(count, status)| format!("{count} {status}"));
    counted.collect::<Vec<_>>().join(", ")
}
