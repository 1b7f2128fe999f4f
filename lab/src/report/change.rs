//! Two results → what is different between them, scenario by scenario.
//!
//! What both came to by the same way is no difference. Of a scenario that ended otherwise, or failed
//! otherwise, the first check that parts them is told: a splat, a step, an expectation, the reason.
//! Numbers that differ from run to run, addresses and times, do not part two failures.

use super::{ScenarioResult, StepResult};
use crate::verdict::{Outcome, OutcomeStatus, Status};
use regex::Regex;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::LazyLock,
};

/// What is different between two results, A and B.
#[derive(Debug, Default, PartialEq)]
pub struct Changes {
    /// What got worse first, then what got better, then the rest, each by name.
    pub changes: Vec<Change>,
    /// How many scenarios came to the same.
    pub alike: usize,
    /// Of those, the ones that took another time: name, seconds in A and in B.
    pub paces: Vec<(String, f64, f64)>,
}

/// What is different of one scenario.
#[derive(Debug, PartialEq)]
pub struct Change {
    /// Its name, with its kernel where there are several.
    pub name: String,
    /// How it ended in A; nothing if it is not in A.
    pub a: Option<Status>,
    /// How it ended in B.
    pub b: Option<Status>,
    /// The first difference, if it is in both.
    pub parting: Option<Parting>,
}

/// Where two runs of a scenario part.
#[derive(Debug, PartialEq)]
pub struct Parting {
    /// Such as `step 3: read: trace`.
    pub at: String,
    /// What A found.
    pub a: String,
    /// What B found.
    pub b: String,
}

/// A time is another one if it is this many times as long, and longer by this many seconds.
const PACE: (f64, f64) = (2.0, 0.5);

/// What differs from run to run and says nothing: addresses, and fractions as times have them.
static PASSING: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(0x)?[0-9a-f]{8,}|[0-9]+\.[0-9]+").ok());

/// What a scenario goes by in a comparison. The kernel's name is empty where A and B have one each,
/// which are then compared whatever their names.
type Case<'a> = (&'a str, &'a str);

/// Compares A with B.
pub fn compare(a: &[&ScenarioResult], b: &[&ScenarioResult]) -> Changes {
    let kernels = |results: &[&ScenarioResult]| {
        results.iter().map(|result| result.kernel.clone()).collect::<BTreeSet<_>>().len()
    };
    let by_kernel = kernels(a) > 1 || kernels(b) > 1;
    let (a, b) = (cases(a, by_kernel), cases(b, by_kernel));
    let mut found = Changes::default();
    for case in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
        let name = if by_kernel { format!("{} on {}", case.1, case.0) } else { case.1.to_owned() };
        let (a, b) = (a.get(case).copied(), b.get(case).copied());
        let parting = match (a, b) {
            (Some(a), Some(b)) => match parting(a, b) {
                Some(parting) => Some(parting),
                None => {
                    found.alike += 1;
                    if is_another_pace(a.seconds, b.seconds) {
                        found.paces.push((name, a.seconds, b.seconds));
                    }
                    continue;
                }
            },
            _ => None,
        };
        let status = |result: Option<&ScenarioResult>| result.map(|result| result.status);
        found.changes.push(Change { name, a: status(a), b: status(b), parting });
    }
    found.changes.sort_by_key(Change::rank);
    found
}

/// One result a scenario: of repeats the first that did not end well, if there is one.
fn cases<'a>(results: &[&'a ScenarioResult], by_kernel: bool) -> BTreeMap<Case<'a>, &'a ScenarioResult> {
    let mut cases: BTreeMap<Case<'a>, &'a ScenarioResult> = BTreeMap::new();
    for &result in results {
        let kernel = if by_kernel { result.kernel.as_str() } else { "" };
        let kept = cases.entry((kernel, &result.name)).or_insert(result);
        if kept.status.is_good() && !result.status.is_good() {
            *kept = result;
        }
    }
    cases
}

fn is_another_pace(a: f64, b: f64) -> bool {
    let (short, long) = (a.min(b), a.max(b));
    long >= PACE.0 * short && long - short >= PACE.1
}

/// The first difference; nothing if both came to the same.
fn parting(a: &ScenarioResult, b: &ScenarioResult) -> Option<Parting> {
    if a.status == b.status && a.status.is_good() {
        return None;
    }
    let ran = |result: &ScenarioResult| !matches!(result.status, Status::Unsupported | Status::LabError);
    let checked = if ran(a) && ran(b) { of_splats(a, b).or_else(|| of_checks(a, b)) } else { None };
    let otherwise = || {
        let same = a.status == b.status && masked(&a.reason) == masked(&b.reason);
        let why = |result: &ScenarioResult| format!("{}{}", result.status, behind(&result.reason));
        (!same).then(|| Parting { at: "verdict".into(), a: why(a), b: why(b) })
    };
    checked.or_else(otherwise)
}

fn of_splats(a: &ScenarioResult, b: &ScenarioResult) -> Option<Parting> {
    let prints = |result: &ScenarioResult| {
        let splats = result.splats.iter().filter(|splat| !splat.allowed);
        splats.map(|splat| (splat.fingerprint.clone(), splat.sentence())).collect::<Vec<_>>()
    };
    let (a, b) = (prints(a), prints(b));
    let first = (0..a.len().max(b.len())).find(|&at| a.get(at).map(|a| &a.0) != b.get(at).map(|b| &b.0))?;
    let told = |splats: &[(String, String)]| {
        splats.get(first).map_or_else(|| "none".into(), |(print, sentence)| format!("{sentence} [{print}]"))
    };
    Some(Parting { at: format!("splat {}", first + 1), a: told(&a), b: told(&b) })
}

/// A step or an expectation, as it is compared.
struct Check<'a> {
    text: &'a str,
    state: &'static str,
    detail: &'a str,
}

impl<'a> Check<'a> {
    fn step(step: &'a StepResult) -> Check<'a> {
        let state = if step.passed { "held" } else { "broken" };
        Check { text: &step.text, state, detail: &step.detail }
    }

    fn expectation(outcome: &'a Outcome) -> Check<'a> {
        let state = match outcome.status {
            OutcomeStatus::Passed => "held",
            OutcomeStatus::Failed => "broken",
            OutcomeStatus::Inconclusive => "inconclusive",
        };
        Check { text: &outcome.text, state, detail: &outcome.detail }
    }

    /// What holds, holds alike, whatever was found.
    fn is_like(&self, other: &Check<'_>) -> bool {
        let same = (self.text, self.state) == (other.text, other.state);
        same && (self.state == "held" || masked(self.detail) == masked(other.detail))
    }
}

fn of_checks(a: &ScenarioResult, b: &ScenarioResult) -> Option<Parting> {
    let steps = |result: &'_ ScenarioResult| result.steps.len();
    let of_step =
        |at: usize| first("step", at, a.steps.get(at).map(Check::step), b.steps.get(at).map(Check::step));
    let of_expectation = |at: usize| {
        let [a, b] = [a, b].map(|result| result.expectations.get(at).map(Check::expectation));
        first("expectation", at, a, b)
    };
    let expectations = a.expectations.len().max(b.expectations.len());
    (0..steps(a).max(steps(b))).find_map(of_step).or_else(|| (0..expectations).find_map(of_expectation))
}

fn first(what: &str, at: usize, a: Option<Check<'_>>, b: Option<Check<'_>>) -> Option<Parting> {
    let number = at + 1;
    let told = |check: &Option<Check<'_>>| match check {
        Some(check) => format!("{}{}", check.state, behind(check.detail)),
        None => "not reached".into(),
    };
    match (&a, &b) {
        (Some(a), Some(b)) if a.is_like(b) => None,
        (Some(one), Some(other)) if one.text != other.text => Some(Parting {
            at: format!("{what} {number}, which is another one"),
            a: one.text.to_owned(),
            b: other.text.to_owned(),
        }),
        _ => {
            let text = [&a, &b].into_iter().flatten().next().map_or("", |check| check.text);
            Some(Parting { at: format!("{what} {number}: {text}"), a: told(&a), b: told(&b) })
        }
    }
}

fn behind(detail: &str) -> String {
    if detail.is_empty() { String::new() } else { format!(": {detail}") }
}

fn masked(text: &str) -> String {
    match &*PASSING {
        Some(passing) => passing.replace_all(text, "#").into_owned(),
        None => text.to_owned(),
    }
}

impl Change {
    fn rank(&self) -> (u8, String) {
        let good = |status: Option<Status>| status.map(Status::is_good);
        let rank = match (good(self.a), good(self.b)) {
            (Some(true), Some(false)) => 0,
            (Some(false), Some(true)) => 1,
            (Some(_), Some(_)) => 2,
            (None, _) => 3,
            (_, None) => 4,
        };
        (rank, self.name.clone())
    }
}

/// The most lines of what a check found that are shown.
const LINES_SHOWN: usize = 8;

impl fmt::Display for Change {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.a, self.b) {
            (Some(a), Some(b)) if a == b => writeln!(out, "{}: {a} in both", self.name)?,
            (Some(a), Some(b)) => writeln!(out, "{}: {a} in A, {b} in B", self.name)?,
            (Some(a), None) => writeln!(out, "{}: only in A, {a}", self.name)?,
            (None, Some(b)) => writeln!(out, "{}: only in B, {b}", self.name)?,
            (None, None) => {}
        }
        let Some(parting) = &self.parting else { return Ok(()) };
        writeln!(out, "  {}", printable(parting.at.lines().next().unwrap_or_default()))?;
        for (side, found) in [("A", &parting.a), ("B", &parting.b)] {
            for (number, line) in found.lines().take(LINES_SHOWN).enumerate() {
                let side = if number == 0 { side } else { " " };
                writeln!(out, "    {side}  {}", printable(line))?;
            }
            let more = found.lines().count().saturating_sub(LINES_SHOWN);
            if more > 0 {
                writeln!(out, "       and {more} lines more")?;
            }
        }
        Ok(())
    }
}

/// What a guest had to say in it cannot move a terminal's cursor.
fn printable(line: &str) -> String {
    line.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}

impl Changes {
    /// The last line: how many of what.
    pub fn summary(&self) -> String {
        let count = |rank: u8| self.changes.iter().filter(|change| change.rank().0 == rank).count();
        format!(
            "{} alike, {} worse in B, {} better in B, {} otherwise, {} only in B, {} only in A",
            self.alike,
            count(0),
            count(1),
            count(2),
            count(3),
            count(4)
        )
    }
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
