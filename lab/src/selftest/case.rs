//! One test of a step, as results have it.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What one of many tests of a step came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// The test, and behind `: ` which of its results it is if it has several.
    pub name: String,
    /// How it ended.
    pub status: CaseStatus,
    /// How long its program ran, in seconds of the host; the first of several results has it.
    pub seconds: f64,
    /// Why, in the test's own words or those of the list of known failures.
    pub detail: String,
    /// The file with what it printed, relative to the scenario's directory; kept of those alone that
    /// did not just pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// How one test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseStatus {
    /// It passed.
    Passed,
    /// It failed.
    Failed,
    /// Its deadline passed.
    TimedOut,
    /// It passed, and the list says that it does not.
    UnexpectedPass,
    /// It failed, as the list or the test itself says that it does.
    KnownFailure,
    /// It says that it cannot test here what it is for.
    Skipped,
    /// The list says that it is not to be run unless it is named.
    LeftOut,
}

impl CaseStatus {
    /// All there are, in the order in which they are counted.
    pub const ALL: [CaseStatus; 7] = [
        CaseStatus::Passed,
        CaseStatus::Failed,
        CaseStatus::TimedOut,
        CaseStatus::UnexpectedPass,
        CaseStatus::KnownFailure,
        CaseStatus::Skipped,
        CaseStatus::LeftOut,
    ];

    /// Whether a step with it can hold.
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

/// How many there are of each: `23 passed, 1 failed`.
pub(crate) fn tally(cases: &[Case]) -> String {
    let count = |status: CaseStatus| cases.iter().filter(|case| case.status == status).count();
    let counted = CaseStatus::ALL.into_iter().map(|status| (count(status), status));
    let counted = counted.filter(|(count, _)| *count > 0).map(|(count, status)| format!("{count} {status}"));
    counted.collect::<Vec<_>>().join(", ")
}
