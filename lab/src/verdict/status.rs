//! How a scenario, and each of its expectations, ended.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How a scenario ended on a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// A complete recording, and every expectation holds.
    Passed,
    /// A step or an expectation did not turn out as written.
    Failed,
    /// The trace lost events that the verdict depends on.
    Inconclusive,
    /// The kernel lacks what the scenario requires.
    Unsupported,
    /// It failed as its kernel, which has the bug, is known to.
    KnownBug,
    /// The guest's kernel panicked.
    Panic,
    /// The kernel reported an oops: a bad access, an undefined instruction.
    Oops,
    /// The kernel log has a warning, a bug or a sanitizer's report.
    Splat,
    /// A deadline passed.
    Hang,
    /// The guest, or the QEMU around it, went away.
    LostGuest,
    /// The lab itself could not do its work.
    LabError,
}

impl Status {
    /// All there are.
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

    /// As results have it: `lost_guest`.
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

    /// Whether a run with it can end well: passed, not applicable, or failed as it should.
    pub fn is_good(self) -> bool {
        matches!(self, Status::Passed | Status::Unsupported | Status::KnownBug)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.name().replace('_', " "))
    }
}

/// What is known of a scenario after its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// How it ended.
    pub status: Status,
    /// Why, in a few words; empty if it passed.
    pub reason: String,
    /// Each expectation, in the order of the file. Empty where the trace was not judged.
    pub expectations: Vec<Outcome>,
}

impl Verdict {
    /// The verdict that expectations alone give: failed if one failed, else inconclusive if one
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

/// How one expectation ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The expectation as it was written.
    pub text: String,
    /// How it ended.
    pub status: OutcomeStatus,
    /// What was found: one line, and for one that did not pass more lines with what came near.
    pub detail: String,
}

/// Whether an expectation holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeStatus {
    /// It holds.
    Passed,
    /// It does not hold.
    Failed,
    /// Events were lost that could decide it either way.
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
