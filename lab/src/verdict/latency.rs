//! `latency:`, the time from one event to another.

use super::{
    finding::{EndState, Evaluate, Finding},
    observed::{Observed, describe, literal, lookup},
    selector::Selector,
};
use crate::scenario::{Latency, Literal};
use std::{collections::HashMap, time::Duration};

/// The maximum number of beginnings that wait for their end.
const OPEN_MAX: usize = 1 << 16;

/// The maximum number of times that are kept to show percentiles. Bounds are checked by counting all times.
const KEPT_MAX: usize = 1 << 16;

pub(super) struct Timing {
    from: Selector,
    to: Selector,
    by: Vec<(String, String)>,
    at_least: u64,
    bounds: Vec<Bound>,
    open: HashMap<Key, u64>,
    crowded: bool,
    count: u64,
    kept: Vec<u64>,
    /// The longest latency, its beginning and end, and its event.
    longest: Option<(u64, (u64, u64), String)>,
}

/// The values that two related events share. One value, the usual case, takes no extra memory.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    One(Literal),
    Several(Vec<Literal>),
}

/// `p95: 5ms`
struct Bound {
    name: &'static str,
    percent: u64,
    most: Duration,
    over: u64,
}

impl Bound {
    /// Returns whether enough of `count` times are within the bound.
    fn holds(&self, count: u64) -> bool {
        // This percentage of all times, rounded up.
        let needed = (u128::from(count) * u128::from(self.percent)).div_ceil(100);
        u128::from(count - self.over) >= needed
    }
}

impl Timing {
    pub(super) fn new(latency: &Latency) -> Timing {
        let bounds = [("p50", 50, latency.p50), ("p95", 95, latency.p95), ("max", 100, latency.max)];
        let bound = |(name, percent, most): (_, _, Option<crate::scenario::Timespan>)| {
            Some(Bound { name, percent, most: most?.0, over: 0 })
        };
        Timing {
            from: Selector::new(&latency.from.event, latency.from.condition.as_ref()),
            to: Selector::new(&latency.to.event, latency.to.condition.as_ref()),
            by: latency.by.0.iter().map(|(from, to)| (from.clone(), to.clone())).collect(),
            at_least: latency.at_least.unwrap_or(1).max(1),
            bounds: bounds.into_iter().filter_map(bound).collect(),
            open: HashMap::new(),
            crowded: false,
            count: 0,
            kept: Vec::new(),
            longest: None,
        }
    }

    /// Returns the values that two related events share; `None` if the event lacks one.
    fn key<'a>(event: &dyn Observed, mut fields: impl ExactSizeIterator<Item = &'a String>) -> Option<Key> {
        let value = |field: &String| lookup(event, field).map(|value| literal(&value));
        match fields.len() {
            1 => value(fields.next()?).map(Key::One),
            _ => fields.map(value).collect::<Option<_>>().map(Key::Several),
        }
    }

    fn measure(&mut self, start: u64, event: &dyn Observed) {
        let took = event.time().saturating_sub(start);
        self.count += 1;
        if self.kept.len() < KEPT_MAX {
            self.kept.push(took);
        }
        for bound in &mut self.bounds {
            bound.over += u64::from(u128::from(took) > bound.most.as_nanos());
        }
        if self.longest.as_ref().is_none_or(|(longest, ..)| took > *longest) {
            self.longest = Some((took, (start, event.time()), describe(event)));
        }
    }

    fn found(&mut self) -> String {
        self.kept.sort_unstable();
        let percentile = |percent: usize| {
            let rank = (self.kept.len() * percent).div_ceil(100).max(1) - 1;
            Duration::from_nanos(self.kept.get(rank).copied().unwrap_or(0))
        };
        let Some((longest, ..)) = &self.longest else { return "measured no time".to_owned() };
        let about = if self.count > self.kept.len() as u64 { "about " } else { "" };
        format!(
            "measured {} times: p50 {about}{:?}, p95 {about}{:?}, max {:?}",
            self.count,
            percentile(50),
            percentile(95),
            Duration::from_nanos(*longest)
        )
    }
}

impl Evaluate for Timing {
    fn wants(&self, group: &str, name: &str) -> bool {
        self.from.wants(group, name) || self.to.wants(group, name)
    }

    fn observe(&mut self, event: &dyn Observed) {
        // An event may end one time and begin the next.
        if self.to.matches(event, &[])
            && let Some(key) = Timing::key(event, self.by.iter().map(|(_, to)| to))
            && let Some(start) = self.open.remove(&key)
        {
            self.measure(start, event);
        }
        if self.from.matches(event, &[])
            && let Some(key) = Timing::key(event, self.by.iter().map(|(from, _)| from))
        {
            if self.open.len() == OPEN_MAX && !self.open.contains_key(&key) {
                self.crowded = true;
            } else {
                self.open.insert(key, event.time());
            }
        }
    }

    /// With losses, only a `max` that was exceeded outside of all of them fails.
    fn finish(mut self: Box<Self>, after: &EndState<'_>) -> Finding {
        if let Some(error) = self.from.error().or_else(|| self.to.error()) {
            return Finding::failed(error);
        }
        let found = self.found();
        let broken: Vec<_> = self.bounds.iter().filter(|bound| !bound.holds(self.count)).collect();
        let longest =
            self.longest.as_ref().map(|(_, _, event)| format!("\n  the longest ended with {event}"));
        let longest = longest.unwrap_or_default();
        if after.losses.any() {
            let clear =
                self.longest.as_ref().is_some_and(|(_, (from, to), _)| !after.losses.overlap(*from, *to));
            return match broken.iter().find(|bound| bound.percent == 100) {
                Some(bound) if clear => {
                    Finding::failed(format!("{found}, expected max at most {:?}{longest}", bound.most))
                }
                _ => after.inconclusive(&found),
            };
        }
        if self.count < self.at_least {
            let near = if self.count == 0 {
                [self.from.explain(), self.to.explain()].concat()
            } else {
                String::new()
            };
            return Finding::failed(format!("{found}, expected at least {}{near}", self.at_least));
        }
        if self.crowded {
            return Finding::failed(format!("{found}; more than {OPEN_MAX} were open at a time"));
        }
        if broken.is_empty() {
            return Finding::passed(found);
        }
        let bounds: Vec<_> = broken
            .iter()
            .map(|bound| format!("{} at most {:?} ({} took longer)", bound.name, bound.most, bound.over))
            .collect();
        Finding::failed(format!("{found}, expected {}{longest}", bounds.join(", ")))
    }
}
