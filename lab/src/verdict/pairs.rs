//! `pairs:`, each enter with its return, per task.

use super::{
    finding::{EndState, Evaluate, Finding},
    observed::{Observed, describe},
    selector::Selector,
};
use crate::scenario::{Amount, Pairs};
use std::{collections::HashMap, time::Duration};

/// The maximum number of calls that are open at a time, in all tasks.
const OPEN_MAX: usize = 1 << 18;

/// The maximum number of problems of each kind that are shown.
const SHOWN: usize = 3;

pub(super) struct Pairing {
    enter: Selector,
    exit: Selector,
    amount: Amount,
    within: Option<Duration>,
    open_allowed: bool,
    /// Open calls of each task that was seen, outermost first.
    open: HashMap<Task, Vec<Call>>,
    open_count: usize,
    crowded: bool,
    pairs: u64,
    shortest: u64,
    longest: u64,
    total: u128,
    slow: Problems,
    unreturned: Problems,
    unentered: Problems,
}

/// A PID and, for idle tasks, which share theirs, the CPU.
type Task = (i32, u32);

pub(super) fn task(event: &dyn Observed) -> Task {
    if event.pid() == 0 { (0, event.cpu()) } else { (event.pid(), 0) }
}

/// A call that has not returned. One that the condition of `enter` rejected is also kept, to recognize its
/// return.
enum Call {
    Counted { time: u64, event: String },
    Rejected,
}

/// Events that break the rule: their number, the first ones, and the times of their calls.
#[derive(Default)]
struct Problems {
    count: u64,
    shown: Vec<String>,
    windows: Vec<(u64, u64)>,
}

impl Problems {
    fn add(&mut self, window: (u64, u64), text: impl FnOnce() -> String) {
        self.count += 1;
        if self.shown.len() < SHOWN {
            self.shown.push(text());
        }
        if self.windows.len() < 64 {
            self.windows.push(window);
        }
    }

    fn describe(&self, what: &str) -> String {
        if self.count == 0 {
            return String::new();
        }
        let events: String = self.shown.iter().map(|event| format!("\n    {event}")).collect();
        format!("\n  {} {what}:{events}", self.count)
    }
}

impl Pairing {
    pub(super) fn new(pairs: &Pairs) -> Pairing {
        let mut amount = Amount::of(pairs.is, pairs.at_least, pairs.at_most);
        if amount == Amount::default() {
            amount.at_least = Some(1);
        }
        Pairing {
            enter: Selector::new(&pairs.enter.event, pairs.enter.condition.as_ref()),
            exit: Selector::new(&pairs.exit.event, pairs.exit.condition.as_ref()),
            amount,
            within: pairs.within.map(|span| span.0),
            open_allowed: pairs.allow_open,
            open: HashMap::new(),
            open_count: 0,
            crowded: false,
            pairs: 0,
            shortest: u64::MAX,
            longest: 0,
            total: 0,
            slow: Problems::default(),
            unreturned: Problems::default(),
            unentered: Problems::default(),
        }
    }

    fn enter(&mut self, event: &dyn Observed) {
        let counted = self.enter.matches(event, &[]);
        if self.open_count == OPEN_MAX {
            self.crowded = true;
            return;
        }
        self.open_count += 1;
        let call = if counted {
            Call::Counted { time: event.time(), event: describe(event) }
        } else {
            Call::Rejected
        };
        self.open.entry(task(event)).or_default().push(call);
    }

    fn exit(&mut self, event: &dyn Observed) {
        let counted = self.exit.matches(event, &[]);
        let begins = !self.open.contains_key(&task(event));
        let call = self.open.entry(task(event)).or_default().pop();
        self.open_count -= usize::from(call.is_some());
        let now = event.time();
        match call {
            // The task was in between when the trace began.
            None if begins && self.open_allowed => {}
            None if counted => self.unentered.add((0, now), || describe(event)),
            None | Some(Call::Rejected) => {}
            Some(Call::Counted { time, event: entered }) if !counted => {
                self.unreturned
                    .add((time, now), || format!("{entered}\n      returned as {}", describe(event)));
            }
            Some(Call::Counted { time, event: entered }) => {
                let took = now.saturating_sub(time);
                self.pairs += 1;
                self.shortest = self.shortest.min(took);
                self.longest = self.longest.max(took);
                self.total += u128::from(took);
                if self.within.is_some_and(|within| u128::from(took) > within.as_nanos()) {
                    let took = Duration::from_nanos(took);
                    self.slow.add((time, now), || format!("{took:?}: {entered}"));
                }
            }
        }
    }

    fn close(&mut self) {
        for mut calls in std::mem::take(&mut self.open).into_values() {
            if self.open_allowed {
                // The task is in between when the trace ends.
                calls.pop();
            }
            calls.into_iter().for_each(|call| self.add_open(call));
        }
    }

    fn add_open(&mut self, call: Call) {
        if let Call::Counted { time, event } = call {
            self.unreturned.add((time, u64::MAX), || format!("{event}\n      still open at the end"));
        }
    }

    fn found(&self) -> String {
        let pairs = format!("found {} pairs", self.pairs);
        if self.pairs == 0 {
            return pairs;
        }
        let [shortest, longest] = [self.shortest, self.longest].map(Duration::from_nanos);
        let mean = u64::try_from(self.total / u128::from(self.pairs)).unwrap_or(u64::MAX);
        let mean = Duration::from_nanos(mean);
        format!("{pairs}, each took {shortest:?} to {longest:?}, {mean:?} on average")
    }
}

impl Evaluate for Pairing {
    fn wants(&self, group: &str, name: &str) -> bool {
        self.enter.wants(group, name) || self.exit.wants(group, name)
    }

    fn observe(&mut self, event: &dyn Observed) {
        if self.enter.names(event) {
            self.enter(event);
        } else {
            self.exit(event);
        }
    }

    /// With losses, only a pair outside of all of them that took too long fails. A lost enter or return may
    /// be the cause of anything else.
    fn finish(mut self: Box<Self>, after: &EndState<'_>) -> Finding {
        if let Some(error) = self.enter.error().or_else(|| self.exit.error()) {
            return Finding::failed(error);
        }
        self.close();
        let found = self.found();
        let slow = format!(" took longer than {:?}", self.within.unwrap_or_default());
        if after.losses.any() {
            let certain = self.slow.windows.iter().any(|(from, to)| !after.losses.overlap(*from, *to));
            return if certain {
                Finding::failed(format!("{found}{}", self.slow.describe(&slow)))
            } else {
                after.inconclusive(&found)
            };
        }
        if self.crowded {
            return Finding::failed(format!("{found}; more than {OPEN_MAX} calls were open at a time"));
        }
        let problems = [
            self.unreturned.describe("without a return"),
            self.unentered.describe("returned without an enter"),
            self.slow.describe(slow.trim_start()),
        ]
        .concat();
        if !self.amount.allows(self.pairs) {
            let near = if self.amount.falls_short(self.pairs) { self.enter.explain() } else { String::new() };
            return Finding::failed(format!("{found}, expected {}{problems}{near}", self.amount));
        }
        if problems.is_empty() {
            Finding::passed(found)
        } else {
            Finding::failed(format!("{found}{problems}"))
        }
    }
}
