//! Selects the events of an expectation, and keeps those that nearly matched.

use super::{
    evaluate::{Bound, ConditionResult},
    observed::{Observed, describe},
};
use crate::scenario::{EventRef, condition::Condition};
use std::fmt::Write;

/// The name and condition of events, and what matched so far.
#[derive(Debug)]
pub(super) struct Selector {
    event: EventRef,
    condition: Option<Condition>,
    /// A kind of event with the name, and one without it, so that names are compared once.
    named: Option<u16>,
    other: Option<u16>,
    /// The number of events with the name.
    seen: u64,
    rejected: u64,
    /// The events that nearly matched: how many parts of the condition held, and a text.
    nearest: Vec<(usize, String)>,
    /// The number of events on which the condition could not be evaluated, and the first reason.
    errors: u64,
    error: String,
}

/// The maximum number of near misses that are shown.
const NEAREST_MAX: usize = 3;

impl Selector {
    pub(super) fn new(event: &EventRef, condition: Option<&Condition>) -> Selector {
        Selector {
            event: event.clone(),
            condition: condition.cloned(),
            named: None,
            other: None,
            seen: 0,
            rejected: 0,
            nearest: Vec::new(),
            errors: 0,
            error: String::new(),
        }
    }

    /// Returns whether it selects events of this group and name.
    pub(super) fn wants(&self, group: &str, name: &str) -> bool {
        self.event.name == name && self.event.group.as_deref().is_none_or(|wanted| wanted == group)
    }

    /// Returns whether `event` has the name.
    pub(super) fn names(&self, event: &dyn Observed) -> bool {
        self.wants(event.group(), event.name())
    }

    /// Like [`Selector::names`], but compares the names of each kind of event once.
    #[inline]
    fn knows(&mut self, event: &dyn Observed) -> bool {
        let kind = Some(event.kind());
        if self.named == kind || self.other == kind {
            return self.named == kind;
        }
        let named = self.names(event);
        *(if named { &mut self.named } else { &mut self.other }) = kind;
        named
    }

    /// Returns whether `event` has the name and meets the condition. Keeps a near miss.
    pub(super) fn matches(&mut self, event: &dyn Observed, bound: &Bound) -> bool {
        if !self.knows(event) {
            return false;
        }
        self.seen += 1;
        let Some(condition) = &self.condition else { return true };
        match condition.holds(event, bound) {
            ConditionResult::Yes => true,
            ConditionResult::No(part) => {
                self.rejected += 1;
                // Of equal misses the first are kept, so that the others cost nothing.
                let worst = self.nearest.iter().map(|(score, _)| *score).min();
                if self.nearest.len() < NEAREST_MAX || worst.is_some_and(|worst| part > worst) {
                    let by = condition.parts().get(part).map_or("", |part| part.text.as_str());
                    self.keep(part, format!("{}\n      rejected by `{by}`", describe(event)));
                }
                false
            }
            ConditionResult::Error(part, reason) => {
                self.errors += 1;
                if self.errors == 1 {
                    let part = condition.parts().get(part).map_or("", |part| part.text.as_str());
                    self.error = format!("`{part}`: {reason}; the event: {}", describe(event));
                }
                false
            }
        }
    }

    fn keep(&mut self, score: usize, text: String) {
        self.nearest.push((score, text));
        self.nearest.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        self.nearest.truncate(NEAREST_MAX);
    }

    /// Keeps a miss for a reason outside of the condition, as if `held` parts of the condition had held.
    pub(super) fn miss(&mut self, event: &dyn Observed, held: usize, reason: impl FnOnce() -> String) {
        self.rejected += 1;
        let worst = self.nearest.iter().map(|(score, _)| *score).min();
        if self.nearest.len() < NEAREST_MAX || worst.is_some_and(|worst| held > worst) {
            self.keep(held, format!("{}\n      rejected by {}", describe(event), reason()));
        }
    }

    /// Returns the number of parts of the condition.
    pub(super) fn parts(&self) -> usize {
        self.condition.as_ref().map_or(0, |condition| condition.parts().len())
    }

    /// Returns whether there was any event with the name.
    pub(super) fn was_seen(&self) -> bool {
        self.seen > 0 || self.rejected > 0
    }

    /// Returns whether the condition needs values of earlier events.
    pub(super) fn needs_bound(&self) -> bool {
        self.condition.as_ref().is_some_and(|condition| condition.bound().next().is_some())
    }

    /// Says why the condition cannot be evaluated.
    pub(super) fn error(&self) -> Option<String> {
        let events = if self.errors == 1 { "1 event".to_owned() } else { format!("{} events", self.errors) };
        (self.errors > 0).then(|| format!("the condition cannot be evaluated on {events}: {}", self.error))
    }

    /// Returns lines about the events that nearly matched, to add to a finding.
    pub(super) fn explain(&self) -> String {
        if !self.was_seen() {
            return format!("\n  no event `{}` is in the trace", self.event);
        }
        if self.nearest.is_empty() {
            return String::new();
        }
        let mut text = match self.rejected {
            1 => "\n  one event came near:".to_owned(),
            rejected => format!("\n  nearest of {rejected} others:"),
        };
        for (_, miss) in &self.nearest {
            let _ = write!(text, "\n    {miss}");
        }
        text
    }
}

impl std::fmt::Display for Selector {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.condition {
            Some(condition) => write!(out, "`{}` where `{condition}`", self.event),
            None => write!(out, "`{}`", self.event),
        }
    }
}
