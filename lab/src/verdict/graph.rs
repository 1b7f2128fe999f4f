//! `graph:`, call trees of the function_graph tracer.
//!
//! While a call of the root is open in a task, the calls of the task are collected in a tree. When the root
//! returns, the tree is compared and dropped.

use super::{
    finding::{EndState, Evaluate, Finding},
    observed::{Observed, describe},
    pairs::task,
    selector::Selector,
};
use crate::scenario::{Amount, EventRef, Graph, GraphCall, Literal};
use std::{collections::HashMap, time::Duration};
use trace::Value;

/// The maximum number of calls that are collected at a time, in all tasks.
const CALLS_MAX: usize = 1 << 18;

/// The maximum number of trees that are shown.
const SHOWN: usize = 3;

/// The maximum number of trees whose times are kept.
const WINDOWS_MAX: usize = 64;

pub(super) struct Trees {
    pattern: GraphCall,
    depth: Option<u32>,
    amount: Amount,
    entries: Selector,
    /// Open calls of the tasks that are inside a root.
    open: HashMap<(i32, u32), Vec<Call>>,
    collected: usize,
    crowded: bool,
    roots: u64,
    found: u64,
    /// The times of the first matching trees.
    windows: Vec<(u64, u64)>,
    /// The calls that match best of those that do not match: how much of the tree they have, and a text.
    others: Vec<(usize, String)>,
}

/// A call and the calls it made.
struct Call {
    function: String,
    start: u64,
    end: u64,
    took: Duration,
    returned: Option<u64>,
    /// Its entry met the condition and the depth of the expectation, so it may be a root.
    candidate: bool,
    /// The event of its entry, for messages.
    entry: String,
    calls: Vec<Call>,
}

impl Call {
    /// Returns the number of calls, including this one.
    fn size(&self) -> usize {
        1 + self.calls.iter().map(Call::size).sum::<usize>()
    }
}

impl Trees {
    pub(super) fn new(graph: &Graph) -> Trees {
        let mut amount = Amount::of(graph.is, graph.at_least, graph.at_most);
        if amount == Amount::default() {
            amount.at_least = Some(1);
        }
        let event =
            EventRef { instance: None, group: Some("ftrace".to_owned()), name: "funcgraph_entry".to_owned() };
        Trees {
            pattern: GraphCall {
                call: graph.call.clone(),
                calls: graph.calls.clone(),
                only: graph.only,
                returns: graph.returns.clone(),
                within: graph.within,
            },
            depth: graph.depth,
            amount,
            entries: Selector::new(&event, graph.condition.as_ref()),
            open: HashMap::new(),
            collected: 0,
            crowded: false,
            roots: 0,
            found: 0,
            windows: Vec::new(),
            others: Vec::new(),
        }
    }

    fn enter(&mut self, event: &dyn Observed) {
        let function = function(event);
        let root = function == self.pattern.call.as_str();
        let task = task(event);
        if !root && !self.open.contains_key(&task) {
            return;
        }
        let depth = number(event, "depth");
        let deep = |wanted: u32| depth == Some(u64::from(wanted));
        let candidate = root && self.entries.matches(event, &[]) && {
            let deep = self.depth.is_none_or(deep);
            if !deep {
                let found = depth.map_or("unknown".to_owned(), |depth| depth.to_string());
                let wanted = self.depth.unwrap_or_default();
                self.entries.miss(event, usize::MAX, || format!("`depth: {wanted}`, it is {found}"));
            }
            deep
        };
        if root && !candidate && !self.open.contains_key(&task) {
            return;
        }
        if self.collected == CALLS_MAX {
            // Drops the open calls; their trees cannot be judged.
            self.crowded = true;
            self.open.clear();
            self.collected = 0;
            return;
        }
        self.collected += 1;
        self.open.entry(task).or_default().push(Call {
            function,
            start: event.time(),
            end: event.time(),
            took: Duration::ZERO,
            returned: None,
            candidate,
            entry: if candidate { describe(event) } else { String::new() },
            calls: Vec::new(),
        });
    }

    fn exit(&mut self, event: &dyn Observed) {
        let task = task(event);
        let Some(calls) = self.open.get_mut(&task) else { return };
        let function = function(event);
        // Calls whose return was lost end with their caller.
        let Some(at) = calls.iter().rposition(|call| call.function == function) else { return };
        let mut call = calls.remove(at);
        self.collected = self.collected.saturating_sub(calls.drain(at..).map(|call| call.size()).sum());
        call.end = event.time();
        call.took = Duration::from_nanos(match (number(event, "calltime"), number(event, "rettime")) {
            (Some(from), Some(to)) if from <= to => to - from,
            _ => call.end.saturating_sub(call.start),
        });
        call.returned = number(event, "retval");
        if call.candidate {
            self.judge(&call);
        }
        let calls = self.open.get_mut(&task);
        match calls.and_then(|calls| calls.last_mut()) {
            Some(caller) => caller.calls.push(call),
            None => {
                self.collected = self.collected.saturating_sub(call.size());
                self.open.remove(&task);
            }
        }
    }

    fn judge(&mut self, call: &Call) {
        self.roots += 1;
        match differs(&self.pattern, call) {
            None => {
                self.found += 1;
                if self.windows.len() < WINDOWS_MAX {
                    self.windows.push((call.start, call.end));
                }
            }
            Some(Differs { has, reason }) => {
                let worst = self.others.iter().map(|(has, _)| *has).min();
                if self.others.len() < SHOWN || worst.is_some_and(|worst| has > worst) {
                    self.others.push((has, format!("{}\n      {reason}", call.entry)));
                    self.others.sort_by_key(|(has, _)| std::cmp::Reverse(*has));
                    self.others.truncate(SHOWN);
                }
            }
        }
    }
}

/// The reason why a call is not the expected one.
struct Differs {
    /// How much of the pattern it matches, for finding the call that matches best.
    has: usize,
    reason: String,
}

/// Compares a call with a pattern: its return value, its time, then the calls that it makes.
fn differs(pattern: &GraphCall, call: &Call) -> Option<Differs> {
    let name = &call.function;
    let differs = |has, reason| Some(Differs { has, reason });
    if let Some(expected) = &pattern.returns {
        match call.returned {
            None => return differs(0, format!("`{name}`: this kernel records no return values")),
            Some(found) if !returns(found, expected) => {
                return differs(0, format!("`{name}` returned {}, expected {expected}", found as i64));
            }
            Some(_) => {}
        }
    }
    if let Some(within) = pattern.within
        && call.took > within.0
    {
        return differs(1, format!("`{name}` took {:?}, expected at most {within}", call.took));
    }
    let calls = || {
        let calls: Vec<_> = call.calls.iter().take(20).map(|inner| inner.function.as_str()).collect();
        format!("`{name}` calls [{}]", calls.join(", "))
    };
    let mut rest = call.calls.iter();
    for (index, wanted) in pattern.calls.iter().enumerate() {
        let mut near: Option<Differs> = None;
        let fits = rest.by_ref().any(|inner| {
            if inner.function != wanted.call.as_str() {
                return false;
            }
            let found = self::differs(wanted, inner);
            let fits = found.is_none();
            near = near.take().or(found);
            fits
        });
        if fits {
            continue;
        }
        let has = 2 + index;
        let before = index.checked_sub(1).and_then(|before| pattern.calls.get(before));
        let place = before.map_or(String::new(), |before| format!(" after `{}`", before.call));
        return match near {
            Some(near) => differs(has + near.has, near.reason),
            None => differs(has, format!("{}, expected `{}`{place}", calls(), wanted.call)),
        };
    }
    if pattern.only && call.calls.len() != pattern.calls.len() {
        let reason = match pattern.calls.len() {
            0 => format!("{}, expected none", calls()),
            _ => format!("{}, expected no other calls", calls()),
        };
        return differs(2 + pattern.calls.len(), reason);
    }
    None
}

/// Compares a return value. The recorded one is a whole register, but the function may return half of it.
fn returns(found: u64, expected: &Literal) -> bool {
    let readings = [i128::from(found), i128::from(found as i64), i128::from(found as u32 as i32)];
    readings.into_iter().any(|reading| *expected == Literal::Int(reading))
}

fn number(event: &dyn Observed, field: &str) -> Option<u64> {
    match event.field(field)? {
        Value::Unsigned(number) => Some(number),
        Value::Signed(number) => Some(number as u64),
        _ => None,
    }
}

fn function(event: &dyn Observed) -> String {
    let address = number(event, "func").unwrap_or(0);
    event.symbol(address).map_or_else(|| format!("{address:#x}"), |(name, _)| name.to_owned())
}

impl Evaluate for Trees {
    fn wants(&self, group: &str, name: &str) -> bool {
        // Kernels that record return addresses or arguments have separate entry events for them.
        group == "ftrace" && (name.starts_with("funcgraph_entry") || name.starts_with("funcgraph_exit"))
            || name.starts_with("fgraph_retaddr_entry")
    }

    fn observe(&mut self, event: &dyn Observed) {
        if event.name().ends_with("exit") { self.exit(event) } else { self.enter(event) }
    }

    /// With losses, only trees that do not overlap one count. There may have been more trees, or others.
    fn finish(self: Box<Self>, after: &EndState<'_>) -> Finding {
        if let Some(error) = self.entries.error() {
            return Finding::failed(error);
        }
        let found =
            format!("found {} such trees of {} calls of `{}`", self.found, self.roots, self.pattern.call);
        let expected = format!("{found}, expected {}", self.amount);
        if after.losses.any() || self.crowded {
            let certain =
                self.windows.iter().filter(|(from, to)| !after.losses.overlap(*from, *to)).count() as u64;
            if self.amount.exceeds(certain) {
                return Finding::failed(expected);
            }
            if !self.amount.falls_short(certain) && self.amount.at_most.is_none() {
                return Finding::passed(found);
            }
            if !after.losses.any() {
                return Finding::failed(format!(
                    "{expected}; more than {CALLS_MAX} calls were open at a time"
                ));
            }
            return after.inconclusive(&found);
        }
        if self.amount.allows(self.found) {
            return Finding::passed(found);
        }
        let others: String = self.others.iter().map(|(_, tree)| format!("\n    {tree}")).collect();
        let others = match others.as_str() {
            _ if self.amount.exceeds(self.found) => String::new(),
            "" => self.entries.explain(),
            others => format!("\n  nearest of the others:{others}"),
        };
        Finding::failed(format!("{expected}{others}"))
    }
}

#[cfg(test)]
#[path = "graph_tests.rs"]
mod tests;
