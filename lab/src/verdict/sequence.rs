//! `sequence:`, events in an order.
//!
//! Any matching event may begin a sequence, so all beginnings are followed at the same time, as in a
//! nondeterministic automaton. Of two partial matches of equal length with equal bindings, only the later
//! is kept: any event that can follow the earlier in time can also follow the later. There are therefore
//! as many partial matches as distinct bindings.

use super::{
    finding::{EndState, Evaluate, Finding},
    observed::{Observed, Stamp, equals, literal, lookup},
    selector::Selector,
};
use crate::{
    results::OutcomeStatus,
    scenario::{Bind, Literal, Same, Sequence},
};
use std::{sync::Arc, time::Duration};

/// The maximum number of partial matches of one length.
const PARTIALS_MAX: usize = 2048;

/// The maximum number of complete matches that are kept, in case losses make the first ones uncertain.
const MATCHES_MAX: usize = 8;

pub(super) struct Following {
    steps: Vec<Step>,
    within: Option<Duration>,
    /// The partial matches: those in `partials[n]` have n + 1 events.
    partials: Vec<Vec<Partial>>,
    /// Per complete match, the intervals in which no event may have been lost.
    matches: Vec<Vec<(u64, u64)>>,
    furthest: Furthest,
    /// An event lacked a field to bind.
    unbound: bool,
    /// There were more than [`PARTIALS_MAX`], and some were dropped.
    crowded: bool,
}

/// The longest partial match, and what ended it.
#[derive(Default)]
struct Furthest {
    trail: Option<Arc<Trail>>,
    end: Option<String>,
}

struct Step {
    selector: Selector,
    bind: Bind,
    same: Same,
    within: Option<Duration>,
    strict: bool,
}

#[derive(Clone)]
struct Partial {
    bound: Vec<(String, Literal)>,
    start: u64,
    last: u64,
    /// The intervals of the strict steps so far.
    strict: Vec<(u64, u64)>,
    trail: Arc<Trail>,
}

/// The events of a partial match, the last one first.
struct Trail {
    before: Option<Arc<Trail>>,
    length: usize,
    stamp: Stamp,
    cpu: u32,
    pid: i32,
}

impl Following {
    pub(super) fn new(sequence: &Sequence) -> Following {
        let step = |(index, step): (usize, &crate::scenario::SequenceStep)| Step {
            selector: Selector::new(&step.event, step.condition.as_ref()),
            bind: step.bind.clone(),
            same: step.same.clone(),
            within: step.within.map(|span| span.0),
            strict: index > 0 && (step.strict || sequence.strict),
        };
        let steps: Vec<_> = sequence.steps.iter().enumerate().map(step).collect();
        Following {
            partials: vec![Vec::new(); steps.len()],
            steps,
            within: sequence.within.map(|span| span.0),
            matches: Vec::new(),
            furthest: Furthest::default(),
            unbound: false,
            crowded: false,
        }
    }

    fn is_done(&self) -> bool {
        // Losses cannot change a match without strict steps.
        self.matches.len() == MATCHES_MAX || self.matches.iter().any(Vec::is_empty)
    }

    /// Extends the partial matches of `length` events that an event continues.
    fn advance(&mut self, length: usize, event: &dyn Observed) {
        if self.partials[length - 1].is_empty() {
            return;
        }
        let step = &mut self.steps[length];
        let waiting = std::mem::take(&mut self.partials[length - 1]);
        let named = step.selector.names(event);
        // A condition without bound values has the same result for all of them.
        let once = (named && !step.selector.needs_bound()).then(|| step.selector.matches(event, &[]));
        let mut kept = Vec::with_capacity(waiting.len());
        let mut next = Vec::new();
        for partial in waiting {
            let same = named && has_same(&step.same, &partial.bound, event);
            if let Some(late) = lateness(step.within, self.within, &partial, event.time()) {
                let fits = same && once.unwrap_or_else(|| step.selector.matches(event, &partial.bound));
                let end = if fits { late.came } else { late.over };
                self.furthest.note(&partial.trail, Some(end));
                continue;
            }
            let fits = named && once.unwrap_or_else(|| step.selector.matches(event, &partial.bound));
            if fits && same {
                let (extended, bound) = extend(step, &partial, event);
                self.unbound |= !bound;
                next.push(extended);
            } else if fits {
                // It differs only in a value of `same`.
                let near = step.selector.parts();
                step.selector.miss(event, near, || differs(&step.same, &partial.bound, event));
            }
            if step.strict && has_same(&step.same, &partial.bound, event) {
                let between = super::observed::describe(event);
                self.furthest.note(&partial.trail, Some(format!("another event came between: {between}")));
            } else {
                kept.push(partial);
            }
        }
        self.partials[length - 1] = kept;
        next.into_iter().for_each(|partial| self.reach(length + 1, partial));
    }

    /// Adds a match of `length` events.
    fn reach(&mut self, length: usize, partial: Partial) {
        self.furthest.note(&partial.trail, None);
        if length == self.steps.len() {
            self.matches.push(partial.strict);
            return;
        }
        let partials = &mut self.partials[length - 1];
        if let Some(other) = partials.iter_mut().find(|other| other.bound == partial.bound) {
            *other = partial;
            return;
        }
        if partials.len() == PARTIALS_MAX {
            self.crowded = true;
            partials.swap_remove(0);
        }
        partials.push(partial);
    }
}

/// Why an event that comes too late ends a partial match.
struct Late {
    /// The reason if it is the expected event.
    came: String,
    /// The reason if it is a different event.
    over: String,
}

/// Returns why a partial match can no longer be continued at the time `now`.
fn lateness(step: Option<Duration>, whole: Option<Duration>, partial: &Partial, now: u64) -> Option<Late> {
    let bounds = [(step, partial.last, "the event before"), (whole, partial.start, "the first event")];
    bounds.into_iter().find_map(|(within, since, what)| {
        let took = Duration::from_nanos(now.saturating_sub(since));
        let within = within.filter(|within| took > *within)?;
        Some(Late {
            came: format!("it came {took:?} after {what}, expected within {within:?}"),
            over: format!("time ran out {within:?} after {what}"),
        })
    })
}

fn has_same(same: &Same, bound: &[(String, Literal)], event: &dyn Observed) -> bool {
    same.0.iter().all(|name| {
        let value = bound.iter().find(|(bound, _)| bound == name).map(|(_, value)| value);
        match (lookup(event, name), value) {
            (Some(found), Some(value)) => equals(event, &found, value),
            _ => false,
        }
    })
}

/// Says which field differs from its bound value.
fn differs(same: &Same, bound: &[(String, Literal)], event: &dyn Observed) -> String {
    let wrong = same.0.iter().find(|name| !has_same(&Same(vec![name.to_string()]), bound, event));
    let value = bound.iter().find(|(name, _)| Some(name) == wrong).map(|(_, value)| value.to_string());
    format!("`same: {}`, which was {}", wrong.map_or("", String::as_str), value.unwrap_or_default())
}

/// Returns a partial match with one more event, and whether the event has all fields to bind.
fn extend(step: &Step, partial: &Partial, event: &dyn Observed) -> (Partial, bool) {
    let mut extended = partial.clone();
    if step.strict {
        extended.strict.push((partial.last, event.time()));
    }
    let has_all = bind(&step.bind, event, &mut extended.bound);
    extended.last = event.time();
    extended.trail = trail(Some(&partial.trail), event);
    (extended, has_all)
}

/// Binds the values of fields. Returns false if the event lacks one.
fn bind(names: &Bind, event: &dyn Observed, bound: &mut Vec<(String, Literal)>) -> bool {
    let before = bound.len();
    bound.extend(
        names.0.iter().filter_map(|(name, field)| Some((name.clone(), literal(&lookup(event, field)?)))),
    );
    bound.len() - before == names.0.len()
}

fn trail(before: Option<&Arc<Trail>>, event: &dyn Observed) -> Arc<Trail> {
    Arc::new(Trail {
        length: before.map_or(0, |before| before.length) + 1,
        before: before.cloned(),
        stamp: event.stamp(),
        cpu: event.cpu(),
        pid: event.pid(),
    })
}

impl Furthest {
    /// Keeps a partial match if none was longer, with the first reason why one of its length ended.
    fn note(&mut self, trail: &Arc<Trail>, end: Option<String>) {
        let longest = self.trail.as_ref().map_or(0, |trail| trail.length);
        if trail.length > longest || (trail.length == longest && self.end.is_none() && end.is_some()) {
            *self = Furthest { trail: Some(Arc::clone(trail)), end };
        }
    }
}

impl Evaluate for Following {
    fn wants(&self, group: &str, name: &str) -> bool {
        // A strict step observes all events, since none may come between.
        self.steps.iter().any(|step| step.strict || step.selector.wants(group, name))
    }

    fn observe(&mut self, event: &dyn Observed) {
        if self.is_done() {
            return;
        }
        // The last step first, so that no event counts twice.
        for length in (1..self.steps.len()).rev() {
            self.advance(length, event);
        }
        let Some(first) = self.steps.first_mut() else { return };
        if first.selector.matches(event, &[]) {
            let mut bound = Vec::new();
            self.unbound |= !bind(&first.bind, event, &mut bound);
            let (time, trail) = (event.time(), trail(None, event));
            self.reach(1, Partial { bound, start: time, last: time, strict: Vec::new(), trail });
        }
    }

    /// With losses, a sequence that was found passes, unless events may have been lost between two events of
    /// a strict step. One that was not found is inconclusive.
    fn finish(self: Box<Self>, after: &EndState<'_>) -> Finding {
        if let Some(error) = self.steps.iter().find_map(|step| step.selector.error()) {
            return Finding::failed(error);
        }
        let certain =
            |strict: &Vec<(u64, u64)>| !strict.iter().any(|(from, to)| after.losses.overlap(*from, *to));
        if self.matches.iter().any(certain) {
            return Finding::passed(format!("found all {} events in order", self.steps.len()));
        }
        let found = match &self.furthest.trail {
            Some(trail) => format!("found {} of {} events in order", trail.length, self.steps.len()),
            None => format!("found none of {} events", self.steps.len()),
        };
        if after.losses.any() {
            return after.inconclusive(&found);
        }
        if self.crowded {
            let detail = format!("{found}, but dropped some: more than {PARTIALS_MAX} were open at a time");
            return Finding { status: OutcomeStatus::Inconclusive, detail };
        }
        Finding::failed(format!("{found}{}", self.explain()))
    }
}

impl Following {
    /// Describes the longest partial match, what ended it, and events that nearly continued it.
    fn explain(&self) -> String {
        let mut text = String::new();
        let mut events = Vec::new();
        let mut at = self.furthest.trail.as_deref();
        while let Some(trail) = at {
            events.push(trail);
            at = trail.before.as_deref();
        }
        let length = events.len();
        for (trail, step) in events.into_iter().rev().zip(&self.steps) {
            let place = format!("pid {} [{:03}] {}", trail.pid, trail.cpu, trail.stamp);
            text.push_str(&format!("\n  {}. {} at {place}", trail.length, step.selector));
        }
        if let Some(step) = self.steps.get(length) {
            text.push_str(&format!("\n  {}. {} did not follow", length + 1, step.selector));
            if let Some(end) = &self.furthest.end {
                text.push_str(&format!(": {end}"));
            }
            if self.unbound {
                text.push_str("\n  an event lacked the field to bind");
            }
            // If time had run out, later events were not compared.
            if self.furthest.end.is_none() || step.selector.was_seen() {
                text.push_str(&step.selector.explain());
            }
        }
        text
    }
}

#[cfg(test)]
#[path = "sequence_tests.rs"]
mod tests;
