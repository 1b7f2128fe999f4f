//! Compares two results scenario by scenario.
//!
//! Two runs of a scenario are the same if they ended in the same way. If a scenario ended or failed
//! differently, the first check that differs is reported: a splat, a step, an expectation, the reason.
//! Numbers that vary from run to run, such as addresses and times, do not make two failures different.

use super::{ScenarioResult, StepResult};
use crate::{
    results::{Outcome, OutcomeStatus, Status},
    words::printable,
};
use regex::Regex;
use schemars::JsonSchema;
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::LazyLock,
};

/// The differences between two results, A and B.
#[derive(Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Changes {
    /// Regressions first, then improvements, then the rest, each sorted by name.
    pub changes: Vec<Change>,
    /// The number of scenarios with the same result.
    pub alike: usize,
    /// Those of them that took much more or less time.
    pub paces: Vec<Pace>,
}

/// The times that a scenario took.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Pace {
    /// Its name, with the kernel if there are several.
    pub name: String,
    /// The seconds in A.
    pub a: f64,
    /// The seconds in B.
    pub b: f64,
}

/// The difference in one scenario.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Change {
    /// Its name, with the kernel if there are several.
    pub name: String,
    /// Its status in A; `None` if it is not in A.
    pub a: Option<Status>,
    /// Its status in B; `None` if it is not in B.
    pub b: Option<Status>,
    /// The first difference, if it is in both.
    pub parting: Option<Divergence>,
}

/// The first check in which two runs of a scenario diverge.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Divergence {
    /// The check, such as `step 3: read: trace`.
    pub at: String,
    /// The finding in A.
    pub a: String,
    /// The finding in B.
    pub b: String,
}

/// Times differ if one is at least this many times as long, and longer by this many seconds.
const PACE: (f64, f64) = (2.0, 0.5);

/// Text that varies from run to run: addresses, and decimal fractions such as times.
static PASSING: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(0x)?[0-9a-f]{8,}|[0-9]+\.[0-9]+").ok());

/// Kernel and scenario, the key of a comparison. The kernel's name is empty if A and B have one kernel
/// each, which are then compared whatever their names.
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
                        found.paces.push(Pace { name, a: a.seconds, b: b.seconds });
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

/// Returns one result per scenario: the first failure among repeats, if there is one.
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

/// Returns the first difference, or `None` if both have the same result.
fn parting(a: &ScenarioResult, b: &ScenarioResult) -> Option<Divergence> {
    if a.status == b.status && a.status.is_good() {
        return None;
    }
    let ran = |result: &ScenarioResult| !matches!(result.status, Status::Unsupported | Status::LabError);
    let checked = if ran(a) && ran(b) { of_splats(a, b).or_else(|| of_checks(a, b)) } else { None };
    let otherwise = || {
        let same = a.status == b.status && masked(&a.reason) == masked(&b.reason);
        let why = |result: &ScenarioResult| format!("{}{}", result.status, behind(&result.reason));
        (!same).then(|| Divergence { at: "verdict".into(), a: why(a), b: why(b) })
    };
    checked.or_else(otherwise)
}

fn of_splats(a: &ScenarioResult, b: &ScenarioResult) -> Option<Divergence> {
    let prints = |result: &ScenarioResult| {
        let splats = result.splats.iter().filter(|splat| !splat.allowed);
        splats.map(|splat| (splat.fingerprint.clone(), splat.sentence())).collect::<Vec<_>>()
    };
    let (a, b) = (prints(a), prints(b));
    let first = (0..a.len().max(b.len())).find(|&at| a.get(at).map(|a| &a.0) != b.get(at).map(|b| &b.0))?;
    let told = |splats: &[(String, String)]| {
        splats.get(first).map_or_else(|| "none".into(), |(print, sentence)| format!("{sentence} [{print}]"))
    };
    Some(Divergence { at: format!("splat {}", first + 1), a: told(&a), b: told(&b) })
}

/// The parts of a step or an expectation that are compared.
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

    /// Compares the details only if the check did not hold.
    fn is_like(&self, other: &Check<'_>) -> bool {
        let same = (self.text, self.state) == (other.text, other.state);
        same && (self.state == "held" || masked(self.detail) == masked(other.detail))
    }
}

fn of_checks(a: &ScenarioResult, b: &ScenarioResult) -> Option<Divergence> {
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

fn first(what: &str, at: usize, a: Option<Check<'_>>, b: Option<Check<'_>>) -> Option<Divergence> {
    let number = at + 1;
    let told = |check: &Option<Check<'_>>| match check {
        Some(check) => format!("{}{}", check.state, behind(check.detail)),
        None => "not reached".into(),
    };
    match (&a, &b) {
        (Some(a), Some(b)) if a.is_like(b) => None,
        (Some(one), Some(other)) if one.text != other.text => Some(Divergence {
            at: format!("{what} {number}, a different one"),
            a: one.text.to_owned(),
            b: other.text.to_owned(),
        }),
        _ => {
            let text = [&a, &b].into_iter().flatten().next().map_or("", |check| check.text);
            Some(Divergence { at: format!("{what} {number}: {text}"), a: told(&a), b: told(&b) })
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

/// The maximum number of lines shown of what a check found.
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
                writeln!(out, "       and {more} more lines")?;
            }
        }
        Ok(())
    }
}

impl Changes {
    /// Returns the last line: the number of scenarios by kind of change.
    pub fn summary(&self) -> String {
        let count = |rank: u8| self.changes.iter().filter(|change| change.rank().0 == rank).count();
        format!(
            "{} unchanged, {} worse in B, {} better in B, {} different, {} only in B, {} only in A",
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
