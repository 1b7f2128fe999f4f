//! The verdict on a scenario, and the outcome of each expectation.

use crate::splat::Severity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The status of a scenario on a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// A complete recording, and every expectation holds.
    Passed,
    /// A step or an expectation failed.
    Failed,
    /// The trace lost events that the verdict depends on.
    Inconclusive,
    /// The kernel lacks what the scenario requires.
    Unsupported,
    /// It failed as listed in the `bugs` of its kernel.
    KnownBug,
    /// The guest's kernel panicked.
    Panic,
    /// The kernel reported an oops: a bad access, an undefined instruction.
    Oops,
    /// The kernel log has a warning, a bug or a sanitizer's report.
    Splat,
    /// A deadline passed.
    Hang,
    /// The guest rebooted, powered off or never booted, or QEMU died.
    LostGuest,
    /// The lab itself failed.
    LabError,
}

impl Status {
    /// All statuses.
    pub const ALL: [Status; 11] = [
        Status::Passed,
        Status::Failed,
        Status::Inconclusive,
        Status::Unsupported,
        Status::KnownBug,
        Status::Panic,
        Status::Oops,
        Status::Splat,
        Status::Hang,
        Status::LostGuest,
        Status::LabError,
    ];

    /// Returns the name in `results.json`, such as `lost_guest`.
    pub fn name(self) -> &'static str {
        match self {
            Status::Passed => "passed",
            Status::Failed => "failed",
            Status::Inconclusive => "inconclusive",
            Status::Unsupported => "unsupported",
            Status::KnownBug => "known_bug",
            Status::Panic => "panic",
            Status::Oops => "oops",
            Status::Splat => "splat",
            Status::Hang => "hang",
            Status::LostGuest => "lost_guest",
            Status::LabError => "lab_error",
        }
    }

    /// Returns whether a run with it can succeed: passed, unsupported, or a known bug.
    pub fn is_good(self) -> bool {
        matches!(self, Status::Passed | Status::Unsupported | Status::KnownBug)
    }
}

impl From<Severity> for Status {
    fn from(severity: Severity) -> Status {
        match severity {
            Severity::Panic => Status::Panic,
            Severity::Oops => Status::Oops,
            Severity::Splat => Status::Splat,
            Severity::Hang => Status::Hang,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.name().replace('_', " "))
    }
}

/// The verdict on a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The status.
    pub status: Status,
    /// The reason, in a few words; empty if it passed.
    pub reason: String,
    /// The outcome of each expectation, in the order of the file; empty if the trace was not judged.
    pub expectations: Vec<Outcome>,
}

impl Verdict {
    /// Returns the verdict from expectations alone: failed if one failed, else inconclusive if one
    /// is, else passed.
    pub fn of(expectations: Vec<Outcome>) -> Verdict {
        let first = |status| expectations.iter().find(|outcome| outcome.status == status);
        let (status, decisive) = match (first(OutcomeStatus::Failed), first(OutcomeStatus::Inconclusive)) {
            (Some(outcome), _) => (Status::Failed, Some(outcome)),
            (None, Some(outcome)) => (Status::Inconclusive, Some(outcome)),
            (None, None) => (Status::Passed, None),
        };
        let reason = decisive.map(|outcome| {
            let detail = outcome.detail.lines().next().unwrap_or_default();
            format!("{}: {detail}", outcome.text)
        });
        Verdict { status, reason: reason.unwrap_or_default(), expectations }
    }
}

/// The outcome of one expectation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// The expectation as it was written.
    pub text: String,
    /// The status.
    pub status: OutcomeStatus,
    /// The finding: one line and, unless the expectation holds, more lines with the nearest misses.
    pub detail: String,
}

/// Whether an expectation holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeStatus {
    /// It holds.
    Passed,
    /// It does not hold.
    Failed,
    /// Lost events could have decided it either way.
    Inconclusive,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_results() {
        for status in Status::ALL {
            assert_eq!(serde_json::to_string(&status).unwrap(), format!("\"{}\"", status.name()));
        }
        assert_eq!(Status::LostGuest.to_string(), "lost guest");
    }

    #[test]
    fn the_worst_expectation_decides() {
        use OutcomeStatus::*;
        let check = |statuses: &[OutcomeStatus], status, reason: &str| {
            let outcome = |(i, status): (usize, &OutcomeStatus)| Outcome {
                text: format!("e{i}"),
                status: *status,
                detail: "why\nmore".to_owned(),
            };
            let verdict = Verdict::of(statuses.iter().enumerate().map(outcome).collect());
            assert_eq!((verdict.status, verdict.reason.as_str()), (status, reason));
        };
        check(&[], Status::Passed, "");
        check(&[Passed, Passed], Status::Passed, "");
        check(&[Passed, Inconclusive], Status::Inconclusive, "e1: why");
        check(&[Inconclusive, Failed, Failed], Status::Failed, "e1: why");
    }
}
