//! The [`Failure`] of a result: the broken check, and a digest that identifies the failure.
//!
//! The digest omits what varies from run to run: numbers, and with them addresses, PIDs, CPUs and times.
//! A splat is identified by its kind and top functions; a step or an expectation by its YAML, at any
//! position in the scenario, and by the words of the finding.

use crate::{
    results::{OutcomeStatus, ScenarioResult, Status},
    splat::Splat,
    words::hex,
    yaml::{Value, flow},
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;

/// The number of words of a finding that count. Later words are examples, which may vary.
const WORDS: usize = 12;

/// The maximum number of characters kept of a finding.
const FINDING_MAX: usize = 1000;

/// The maximum number of frames kept of a splat.
const FRAMES: usize = 8;

/// The failure of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// Any status that is a failure of the kernel or the scenario.
    pub status: Status,
    /// Why it failed, in a sentence.
    pub reason: String,
    /// The check that failed.
    #[serde(with = "crate::yaml::singleton_map")]
    pub broken: Broken,
    /// The finding, on one line.
    pub finding: String,
    /// Identical for the same failure.
    pub fingerprint: String,
}

/// The check that failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Broken {
    /// The first expectation that did not hold.
    Expectation(Item),
    /// The first step that failed, or that was running when the machine ended.
    Step(Item),
    /// A splat.
    Splat {
        /// Its kind, in a word or two.
        kind: String,
        /// Its first line.
        title: String,
        /// Functions, innermost first.
        frames: Vec<String>,
    },
    /// Anything that is not about a part of the scenario.
    Run,
}

/// A part of the scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// Its position in its list, from 1.
    pub number: usize,
    /// Its YAML, on one line.
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
    /// Returns the failure of a result; `None` for a good status or a lab error. `scenario` is the text
    /// that was run.
    pub fn of(result: &ScenarioResult, scenario: &str) -> Option<Failure> {
        if result.status.is_good() || result.status == Status::LabError {
            return None;
        }
        let scenario = crate::yaml::from_str(scenario).unwrap_or(Value::Null);
        let Failing { broken, mark, finding } = failing(result, &scenario);
        let words = if matches!(broken, Broken::Splat { .. }) { String::new() } else { shape(&finding) };
        let fingerprint = digest(result.status, &[broken.kind(), &mark, &words]);
        Some(Failure { status: result.status, reason: result.reason.clone(), broken, finding, fingerprint })
    }

    /// Returns whether it is the same failure.
    pub fn is_same(&self, other: &Failure) -> bool {
        self.fingerprint == other.fingerprint
    }

    /// Returns whether it is the same failure including the numbers found. Without them, a changed
    /// scenario whose count fails because nothing happens any more would pass for the bug.
    pub(crate) fn is_exactly(&self, other: &Failure) -> bool {
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

/// The broken check, and what identifies it.
struct Failing {
    broken: Broken,
    /// Identifies the check, identical in each run.
    mark: String,
    finding: String,
}

fn failing(result: &ScenarioResult, scenario: &Value) -> Failing {
    if let Some(splat) = splat(result) {
        let frames = splat.frames.iter().take(FRAMES).map(|frame| frame.symbol.clone()).collect();
        let broken = Broken::Splat { kind: splat.kind.clone(), title: splat.title.clone(), frames };
        return Failing { broken, mark: splat.fingerprint.clone(), finding: first_line(&splat.title) };
    }
    // A step that was interrupted by the machine's end is not at fault; the cause of the end counts.
    let judged = matches!(result.status, Status::Failed | Status::Inconclusive);
    let step = result.steps.iter().position(|step| !step.passed).filter(|_| judged);
    // The verdict is that of the first one in this order.
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
    // If the verdict has another cause, the reason does not begin with an expectation.
    let decisive = |index: &usize| judged && result.reason.starts_with(&result.expectations[*index].text);
    if let Some(index) = outcome.filter(decisive) {
        let outcome = &result.expectations[index];
        let (item, mark) = item(scenario, "expect", index, &outcome.text);
        return Failing { broken: Broken::Expectation(item), mark, finding: first_line(&outcome.detail) };
    }
    // The reason for a machine's end names the step in words that depend on how the scenario is written,
    // so the step's YAML identifies it instead.
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

/// Returns the splat that determined the verdict.
fn splat(result: &ScenarioResult) -> Option<&Splat> {
    if !matches!(result.status, Status::Panic | Status::Oops | Status::Splat) {
        return None;
    }
    let meant = || result.splats.iter().filter(|splat| !splat.allowed);
    meant().find(|splat| Status::from(splat.severity) == result.status).or(meant().next())
}

/// Returns an item of one of the scenario's lists: readable, and in a canonical form.
fn item(scenario: &Value, list: &str, index: usize, text: &str) -> (Item, String) {
    let number = index + 1;
    let value = scenario.get(list).and_then(|list| list.get(index));
    // In canonical form, line breaks, quotes and comments make no difference.
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
    let digits = hex(&digest.finalize()[..6]);
    format!("{}-{digits}", status.name())
}

/// Returns the first words of a finding, without numbers and brackets that contain one. The 0 of
/// `found 0` is kept: it makes a different failure.
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

/// Returns the decimal numbers of a finding, except times and numbers too long for a count.
fn numbers(finding: &str) -> Vec<&str> {
    const UNITS: [&str; 5] = ["s", "ms", "us", "µs", "ns"];
    let words: Vec<_> = finding.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '.').collect();
    let is_count =
        |word: &str| !word.is_empty() && word.len() < 7 && word.chars().all(|c| c.is_ascii_digit());
    let is_time = |index: usize| words.get(index + 1).is_some_and(|next| UNITS.contains(next));
    let counts = words.iter().enumerate().filter(|(index, word)| is_count(word) && !is_time(*index));
    counts.map(|(_, word)| *word).collect()
}

/// Returns whether a word is hexadecimal, such as an address or a digest without decimal digits.
fn is_hex(word: &str) -> bool {
    word.len() >= 8 && word.chars().all(|c| c.is_ascii_hexdigit())
}

/// Removes parentheses that contain a digit: `3 s (4.5 s on this guest)` becomes `3 s`.
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
