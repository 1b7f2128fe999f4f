//! What every expectation is once it runs: something that looks at events one by one, keeps a
//! bounded amount of them, and says in the end what it found.

use super::{OutcomeStatus, Said, losses::Losses, observed::Observed};
use std::collections::BTreeMap;

/// An expectation at work.
pub(super) trait Evaluate: Send {
    /// Whether events of this group and name are to be observed.
    fn wants(&self, group: &str, name: &str) -> bool;

    /// Looks at one event that it wants. Events come in the order of their time.
    fn observe(&mut self, event: &dyn Observed);

    /// What it found.
    fn finish(self: Box<Self>, after: &After<'_>) -> Finding;
}

/// What is known after the last event.
pub(super) struct After<'a> {
    pub(super) losses: &'a Losses,
    /// The losses in words.
    pub(super) lost: String,
    pub(super) kernel_log: &'a str,
    pub(super) files: &'a BTreeMap<String, String>,
    /// What steps wrote to stdout, by their numbers from 1.
    pub(super) outputs: &'a BTreeMap<usize, Said>,
}

impl After<'_> {
    /// The finding where a lost event could change everything.
    pub(super) fn inconclusive(&self, found: &str) -> Finding {
        Finding { status: OutcomeStatus::Inconclusive, detail: format!("{found}, but {}", self.lost) }
    }
}

/// How an expectation ended.
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
