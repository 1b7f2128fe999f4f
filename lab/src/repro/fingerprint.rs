//! A result → [`Failure`]: what was broken, and a digest that the same failure has each time.
//!
//! What differs from run to run is left out: numbers and with them addresses, processes, CPUs and
//! times. A splat is known by its kind and the functions at its top; a step or an expectation by what
//! is written in the scenario, wherever it stands there, and by the words of what was found instead.

use super::flow;
use crate::{
    report::ScenarioResult,
    verdict::{OutcomeStatus, Splat, Status},
};
use serde::{Deserialize, Serialize};
use serde_yaml::Value;
use sha2::{Digest, Sha256};
use std::fmt;

/// Words of a finding that count. What follows names examples, which may be others the next time.
const WORDS: usize = 12;

/// Characters of a finding that are kept.
const FINDING_MAX: usize = 1000;

/// Frames of a splat that are told.
const FRAMES: usize = 8;

/// How a scenario failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// Any but passed and unsupported.
    pub status: Status,
    /// What happened, in a sentence.
    pub reason: String,
    /// What did not hold.
    #[serde(with = "serde_yaml::with::singleton_map")]
    pub broken: Broken,
    /// What was found there, on one line.
    pub finding: String,
    /// The same where the failure is the same.
    pub fingerprint: String,
}

/// What did not hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Broken {
    /// The first expectation that did not hold.
    Expectation(Item),
    /// The first step that did not do what it should, or that the machine did not survive.
    Step(Item),
    /// What the kernel complained of.
    Splat {
        /// In a word or two.
        kind: String,
        /// Its first line.
        title: String,
        /// Functions, innermost first.
        frames: Vec<String>,
    },
    /// Something that no part of the scenario is about.
    Run,
}

/// A part of the scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// Its place in its list, from 1.
    pub number: usize,
    /// As it is written, on one line.
    pub text: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Expectation(item) => write!(out, "expectation {}, `{}`", item.number, item.text),
            Broken::Step(item) => write!(out, "step {}, `{}`", item.number, item.text),
            Broken::Splat { kind, title, .. } => write!(out, "{kind}, `{title}`"),
            Broken::Run => out.write_str("the run"),
        }
    }
}

impl Failure {
    /// The failure of a result; none if it passed, was unsupported, or the lab's own. `scenario` is
    /// the text that was run.
    pub fn of(result: &ScenarioResult, scenario: &str) -> Option<Failure> {
        if result.status.is_good() || result.status == Status::LabError {
            return None;
        }
        let scenario = serde_yaml::from_str(scenario).unwrap_or(Value::Null);
        let Failing { broken, mark, finding } = failing(result, &scenario);
        let words = if matches!(broken, Broken::Splat { .. }) { String::new() } else { shape(&finding) };
        let fingerprint = digest(result.status, &[broken.kind(), &mark, &words]);
        Some(Failure { status: result.status, reason: result.reason.clone(), broken, finding, fingerprint })
    }

    /// Whether it is the same failure.
    pub fn is_same(&self, other: &Failure) -> bool {
        self.fingerprint == other.fingerprint
    }

    /// Whether it is the same failure down to the numbers that were found. Where a scenario is changed,
    /// less than this would take a count that fails since nothing happens any more for one that fails by
    /// the bug.
    pub(super) fn is_exactly(&self, other: &Failure) -> bool {
        let counted = matches!(self.broken, Broken::Expectation(_) | Broken::Step(_));
        self.is_same(other) && (!counted || numbers(&self.finding) == numbers(&other.finding))
    }
}

impl Broken {
    fn kind(&self) -> &'static str {
        match self {
            Broken::Expectation(_) => "expectation",
            Broken::Step(_) => "step",
            Broken::Splat { .. } => "splat",
            Broken::Run => "run",
        }
    }
}

/// What is broken, and by what it is known.
struct Failing {
    broken: Broken,
    /// What it is, the same each time.
    mark: String,
    finding: String,
}

fn failing(result: &ScenarioResult, scenario: &Value) -> Failing {
    if let Some(splat) = splat(result) {
        let frames = splat.frames.iter().take(FRAMES).map(|frame| frame.symbol.clone()).collect();
        let broken = Broken::Splat { kind: splat.kind.clone(), title: splat.title.clone(), frames };
        return Failing { broken, mark: splat.fingerprint.clone(), finding: first_line(&splat.title) };
    }
    // A step that a death broke off did nothing wrong: what killed the machine counts.
    let judged = matches!(result.status, Status::Failed | Status::Inconclusive);
    let step = result.steps.iter().position(|step| !step.passed).filter(|_| judged);
    // The verdict is named after what comes first in this order.
    if let Some(index) = step {
        let step = &result.steps[index];
        let (item, mark) = item(scenario, "steps", index, &step.text);
        return Failing { broken: Broken::Step(item), mark, finding: first_line(&step.detail) };
    }
    let wanted = match result.status {
        Status::Inconclusive => OutcomeStatus::Inconclusive,
        _ => OutcomeStatus::Failed,
    };
    let outcome = result.expectations.iter().position(|outcome| outcome.status == wanted);
    // Where something else decided, the reason is not that of an expectation.
    let decisive = |index: &usize| judged && result.reason.starts_with(&result.expectations[*index].text);
    if let Some(index) = outcome.filter(decisive) {
        let outcome = &result.expectations[index];
        let (item, mark) = item(scenario, "expect", index, &outcome.text);
        return Failing { broken: Broken::Expectation(item), mark, finding: first_line(&outcome.detail) };
    }
    // How a machine ended comes with what it was about, in words that are not the same however the
    // scenario is written.
    if let Some((end, stage)) = result.reason.rsplit_once(", during step ")
        && let Some(number) = stage.split(|c: char| !c.is_ascii_digit()).next()
        && let Some(index) = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1))
    {
        let (item, mark) = item(scenario, "steps", index, "");
        return Failing { broken: Broken::Step(item), mark, finding: first_line(end) };
    }
    Failing { broken: Broken::Run, mark: String::new(), finding: first_line(&result.reason) }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(FINDING_MAX).collect()
}

/// The splat that the verdict is named after.
fn splat(result: &ScenarioResult) -> Option<&Splat> {
    if !matches!(result.status, Status::Panic | Status::Oops | Status::Splat) {
        return None;
    }
    let meant = || result.splats.iter().filter(|splat| !splat.allowed);
    meant().find(|splat| splat.status == result.status).or(meant().next())
}

/// An item of one of the scenario's lists: for a person, and in a form in which equal ones are equal.
fn item(scenario: &Value, list: &str, index: usize, text: &str) -> (Item, String) {
    let number = index + 1;
    let value = scenario.get(list).and_then(|list| list.get(index));
    // However it is written: lines, quotes and comments make no difference.
    match value.and_then(|value| Some((value, serde_json::to_string(value).ok()?))) {
        Some((value, mark)) => (Item { number, text: flow::shown(value) }, mark),
        None => (Item { number, text: text.to_owned() }, text.to_owned()),
    }
}

fn digest(status: Status, marks: &[&str]) -> String {
    let mut digest = Sha256::new();
    digest.update(status.name());
    for mark in marks {
        digest.update("\n");
        digest.update(mark);
    }
    let digits: String = digest.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{digits}", status.name())
}

/// The first words of a finding, without numbers and what is in brackets with one. That nothing was
/// found at all is no number.
fn shape(finding: &str) -> String {
    let line = without_brackets(finding);
    let words = line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    let mut kept = Vec::new();
    let mut before = "";
    for word in words {
        let numeric = word.chars().any(|c| c.is_ascii_digit()) || is_hex(word);
        if !numeric || (word, before) == ("0", "found") {
            kept.push(word);
        }
        before = word;
    }
    kept.truncate(WORDS);
    kept.join(" ")
}

/// The decimal numbers of a finding, but for those of times and what is too long to be a count.
fn numbers(finding: &str) -> Vec<&str> {
    const UNITS: [&str; 5] = ["s", "ms", "us", "µs", "ns"];
    let words: Vec<_> = finding.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '.').collect();
    let is_count =
        |word: &str| !word.is_empty() && word.len() < 7 && word.chars().all(|c| c.is_ascii_digit());
    let is_time = |index: usize| words.get(index + 1).is_some_and(|next| UNITS.contains(next));
    let counts = words.iter().enumerate().filter(|(index, word)| is_count(word) && !is_time(*index));
    counts.map(|(_, word)| *word).collect()
}

/// An address or a digest that happens to have no digit.
fn is_hex(word: &str) -> bool {
    word.len() >= 8 && word.chars().all(|c| c.is_ascii_hexdigit())
}

/// A line without the parts in round brackets that have a number: `3 s (4.5 s on this guest)`.
fn without_brackets(line: &str) -> String {
    let mut kept = String::new();
    let mut rest = line;
    while let Some((before, behind)) = rest.split_once('(') {
        kept.push_str(before);
        kept.push(' ');
        match behind.split_once(')') {
            Some((inside, after)) => {
                if !inside.chars().any(|c| c.is_ascii_digit()) {
                    kept.push_str(inside);
                }
                rest = after;
            }
            None => rest = behind,
        }
    }
    kept + rest
}

#[cfg(test)]
#[path = "fingerprint_tests.rs"]
mod tests;
