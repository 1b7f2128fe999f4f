//! Descriptions of a scenario's parts for `lab explain`: one sentence for each kind of event, step and
//! expectation.
//!
//! Each impl destructures its type without `..`, so that a new field without words is a compile error.

mod event;
mod expect;
mod memory;
mod step;

pub(crate) use event::requirements;

use super::{Allowed, Errno, TextCheck};
use crate::{scenario::Condition, words::excerpt};
use std::{collections::BTreeMap, fmt::Display};

/// A part of a scenario that can be described.
pub trait Describe {
    /// Returns a sentence or its main clause on one line, without a full stop.
    fn describe(&self) -> String;
}

/// Maximum number of characters of a string in a sentence.
const SHOWN: usize = 120;

/// Quotes a string, truncated if it is long.
fn quoted(text: &str) -> String {
    format!("\"{}\"", excerpt(text.trim_end_matches('\n'), SHOWN))
}

/// Joins items: `a`, `a and b`, `a, b and c`.
fn list<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let mut items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    match items.pop() {
        Some(last) if items.is_empty() => last,
        Some(last) => format!("{} and {last}", items.join(", ")),
        None => "nothing".to_owned(),
    }
}

/// Joins names, each formatted as code.
fn code<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    list(items.into_iter().map(|item| format!("`{item}`")))
}

/// Returns the words for an optional part, or nothing.
fn add<T>(part: Option<T>, words: impl FnOnce(T) -> String) -> String {
    part.map(words).unwrap_or_default()
}

/// Describes the expected error of a system call.
fn ends(errno: Option<Errno>) -> String {
    add(errno, |errno| format!("; it must fail with {errno}"))
}

/// Describes the condition that selects events of a name.
fn condition(condition: Option<&Condition>) -> String {
    add(condition, |condition| format!(" where `{condition}`"))
}

fn environment(env: &BTreeMap<String, String>) -> String {
    if env.is_empty() {
        return String::new();
    }
    format!(", with {} in its environment", code(env.iter().map(|(name, value)| format!("{name}={value}"))))
}

/// Describes checks of strings, each with its subject: `; its stdout must end with "…"`.
fn checks<const N: usize>(checks: [(&str, Option<&TextCheck>); N]) -> String {
    let told = checks.into_iter().filter_map(|(what, check)| Some(format!("; {what} {}", check?.describe())));
    told.collect()
}

impl Describe for TextCheck {
    fn describe(&self) -> String {
        let TextCheck { equal, contains, never, matches, ends_with } = self;
        let mut parts = Vec::new();
        parts.extend(equal.as_deref().map(|text| format!("must be {}", quoted(text))));
        if !contains.is_empty() {
            parts.push(format!("must contain {}", list(contains.iter().map(|text| quoted(text)))));
        }
        parts.extend(matches.as_ref().map(|pattern| format!("must match /{}/", pattern.0.as_str())));
        parts.extend(ends_with.as_deref().map(|text| format!("must end with {}", quoted(text))));
        if !never.is_empty() {
            parts.push(format!("must never contain {}", list(never.iter().map(|text| quoted(text)))));
        }
        if parts.is_empty() { "may be anything".to_owned() } else { list(parts) }
    }
}

impl Describe for Allowed {
    fn describe(&self) -> String {
        match self {
            Allowed::Fingerprint(fingerprint) => fingerprint.clone(),
            Allowed::Title(pattern) => format!("/{}/", pattern.0.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{EventSpec, Expectation, Step};
    use serde::de::DeserializeOwned;

    fn check<T: Describe + DeserializeOwned>(yaml: &str, expect: &str) {
        let part: T = crate::yaml::from_str(yaml).unwrap_or_else(|error| panic!("{yaml}: {error}"));
        assert_eq!(part.describe(), expect, "{yaml}");
    }

    #[test]
    fn steps_in_words() {
        check::<Step>(
            "{ workload: eventfd --sleep 0 1, stdout: { contains: [a, b], ends_with: c } }",
            "runs `eventfd --sleep 0 1` to completion; its stdout must contain \"a\" and \"b\" and must end \
             with \"c\"",
        );
        check::<Step>(
            "{ workload: eventfd 1, until: done }",
            "runs `eventfd 1`, and continues once its stdout contains \"done\"; it keeps running and is killed \
             after the last step",
        );
        check::<Step>(
            "{ write: kprobe_events, text: 'p:x y', append: true, errno: ENOENT }",
            "appends \"p:x y\" to `kprobe_events`; it must fail with ENOENT",
        );
        check::<Step>(
            "{ hook: '+w symbol=vfs_write action=redirect', errno: EBUSY }",
            "hooks `vfs_write` as `w`, with action=redirect; it must fail with EBUSY",
        );
        check::<Step>("{ hook: 'w filter +vfs_read' }", "changes the hook `w`: filter +vfs_read");
        check::<Step>("{ hook: -w }", "removes the hook `w`");
        check::<Step>("{ hits: w, count: 5 }", "checks how often the hook `w` was hit: exactly 5 times");
        check::<Step>(
            "{ text: { key: k, in: f }, is: [nop, b], sites: 2 }",
            "reads the patch sites of the static key `k` in `f`, exactly 2 of them: they must be `nop`, `b`",
        );
        check::<Step>(
            "{ inspect: [ { value: a.b, symbol: f, capture: x }, { tasks: t, is: 2 } ] }",
            "stops the guest and reads its memory: `a.b` must point to `f`, and is saved as `${x}`; the \
             number of tasks named `t` must be 2",
        );
    }

    #[test]
    fn expectations_in_words() {
        check::<Expectation>(
            "{ count: { event: e, where: x == 1, is: 5 } }",
            "there are exactly 5 events `e` where `x == 1`",
        );
        check::<Expectation>(
            "{ sequence: [ { event: a, where: x == 1, bind: pid }, { event: b, same: pid, within: 5ms } ] }",
            "these events occur in this order, with other events allowed in between: `a` where `x == 1` (its pid \
             is saved as `$pid`), then `b` with the same `pid`, at most 5ms after the previous one",
        );
        check::<Expectation>(
            "{ latency: { from: a, to: b, by: { pid: next_pid }, p95: 5ms, max: 1s } }",
            "from each `a` to the next `b` whose `next_pid` is its `pid`: 95 of 100 take at most 5ms, all at \
             most 1s, at least 1 measured",
        );
        check::<Expectation>("{ kernel_log: { never: [BUG] } }", "the kernel log must never contain \"BUG\"");
    }

    #[test]
    fn events_in_words() {
        check::<EventSpec>("{ kprobe: vfs_write+4, name: w }", "a kprobe at `vfs_write+4`");
        check::<EventSpec>(
            "{ event: 'sched:sched_switch', filter: prev_pid != 0, triggers: [stacktrace], instance: i }",
            "an existing event",
        );
    }
}
