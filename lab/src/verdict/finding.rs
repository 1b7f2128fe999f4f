//! The interface of expectations: each observes events one by one, keeps a bounded number of them, and
//! returns a finding at the end.

use super::{losses::Losses, observed::Observed};
use crate::{recording::StepStdout, results::OutcomeStatus};
use std::collections::BTreeMap;
use trace::Trace;

/// Evaluates an expectation.
pub(super) trait Evaluate: Send {
    /// Returns whether it observes events of this group and name.
    fn wants(&self, group: &str, name: &str) -> bool;

    /// Observes an event that it wants. Events come in order of time.
    fn observe(&mut self, event: &dyn Observed);

    /// Returns the finding.
    fn finish(self: Box<Self>, after: &EndState<'_>) -> Finding;
}

/// The state after the last event.
pub(super) struct EndState<'a> {
    pub(super) losses: &'a Losses,
    /// The losses as text.
    pub(super) lost: String,
    /// The CPUs of the trace.
    pub(super) cpus: &'a [u32],
    /// The trace itself, unless its events come from elsewhere.
    pub(super) trace: Option<&'a Trace>,
    pub(super) kernel_log: &'a str,
    pub(super) files: &'a BTreeMap<String, String>,
    /// The stdout of steps by their numbers, from 1.
    pub(super) outputs: &'a BTreeMap<usize, StepStdout>,
}

impl EndState<'_> {
    /// Returns the finding of an expectation that lost events could change.
    pub(super) fn inconclusive(&self, found: &str) -> Finding {
        Finding { status: OutcomeStatus::Inconclusive, detail: format!("{found}, but {}", self.lost) }
    }
}

/// The result of an expectation.
#[derive(Debug, PartialEq)]
pub(super) struct Finding {
    pub(super) status: OutcomeStatus,
    pub(super) detail: String,
}

impl Finding {
    pub(super) fn passed(detail: impl Into<String>) -> Finding {
        Finding { status: OutcomeStatus::Passed, detail: detail.into() }
    }

    pub(super) fn failed(detail: impl Into<String>) -> Finding {
        Finding { status: OutcomeStatus::Failed, detail: detail.into() }
    }
}
