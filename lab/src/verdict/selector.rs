//! Which events an expectation is about, and which came near.

use super::{
    condition::Condition,
    evaluate::{Bound, Holds},
    observed::{Observed, describe},
};
use crate::scenario::EventRef;
use std::fmt::Write;

/// An event's name and a condition, and what was seen of both.
#[derive(Debug)]
pub(super) struct Selector {
    event: EventRef,
    condition: Option<Condition>,
    /// Events of the name.
    seen: u64,
    rejected: u64,
    /// The nearest misses: how many parts of the condition held, and what to say.
    nearest: Vec<(usize, String)>,
    /// How often the condition could not be evaluated, and the first reason.
    errors: u64,
    error: String,
}

/// Misses that are shown.
const NEAREST_MAX: usize = 3;

impl Selector {
    pub(super) fn new(event: &EventRef, condition: Option<&Condition>) -> Selector {
        Selector {
            event: event.clone(),
            condition: condition.cloned(),
            seen: 0,
            rejected: 0,
            nearest: Vec::new(),
            errors: 0,
            error: String::new(),
        }
    }

    /// Whether events of this group and name are meant.
    pub(super) fn wants(&self, group: &str, name: &str) -> bool {
        self.event.name == name && self.event.group.as_deref().is_none_or(|wanted| wanted == group)
    }

    /// Whether `event` has the name.
    pub(super) fn names(&self, event: &dyn Observed) -> bool {
        self.wants(event.group(), event.name())
    }

    /// Whether `event` has the name and the condition holds of it. A miss is remembered.
    pub(super) fn matches(&mut self, event: &dyn Observed, bound: &Bound) -> bool {
        if !self.names(event) {
            return false;
        }
        self.seen += 1;
        let Some(condition) = &self.condition else { return true };
        match condition.holds(event, bound) {
            Holds::Yes => true,
            Holds::No(part) => {
                self.rejected += 1;
                // Of equally near ones the first are kept, which takes no work for all others.
                let worst = self.nearest.iter().map(|(score, _)| *score).min();
                if self.nearest.len() < NEAREST_MAX || worst.is_some_and(|worst| part > worst) {
                    let by = condition.parts().get(part).map_or("", |part| part.text.as_str());
                    self.keep(part, format!("{}\n      rejected by `{by}`", describe(event)));
                }
                false
            }
            Holds::Error(part, reason) => {
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

    /// Remembers a miss for a reason outside of the condition; `held` says how near it was.
    pub(super) fn miss(&mut self, event: &dyn Observed, held: usize, reason: impl FnOnce() -> String) {
        self.rejected += 1;
        let worst = self.nearest.iter().map(|(score, _)| *score).min();
        if self.nearest.len() < NEAREST_MAX || worst.is_some_and(|worst| held > worst) {
            self.keep(held, format!("{}\n      rejected by {}", describe(event), reason()));
        }
    }

    /// How many parts the condition has.
    pub(super) fn parts(&self) -> usize {
        self.condition.as_ref().map_or(0, |condition| condition.parts().len())
    }

    /// Whether any event of the name was looked at.
    pub(super) fn was_seen(&self) -> bool {
        self.seen > 0 || self.rejected > 0
    }

    /// Whether the condition needs values of earlier events.
    pub(super) fn needs_bound(&self) -> bool {
        self.condition.as_ref().is_some_and(|condition| condition.bound().next().is_some())
    }

    /// Why the condition cannot be judged, if it cannot.
    pub(super) fn error(&self) -> Option<String> {
        let events = if self.errors == 1 { "1 event".to_owned() } else { format!("{} events", self.errors) };
        (self.errors > 0).then(|| format!("the condition cannot be evaluated on {events}: {}", self.error))
    }

    /// What was there instead, as lines of their own below a first line.
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
