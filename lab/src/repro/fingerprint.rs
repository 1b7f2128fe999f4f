//! A result → [`Failure`]: what was broken, and a digest that the same failure has each time.
//!
//! What differs from run to run is left out: numbers and with them addresses, processes, CPUs and
//! times. A splat is known by its kind and the functions at its top; a step or an expectation by what
//! is written in the scenario, wherever it stands there, and by the words of what was found instead.

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
    /// The same where the failure is the same.
    pub fingerprint: String,
}

/// What did not hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Broken {
    /// The first expectation that did not hold.
    Expectation(Item),
    /// The first step that did not do what it should.
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
        let (broken, marks) = broken(result, &scenario);
        let fingerprint = digest(result.status, &marks);
        Some(Failure { status: result.status, reason: result.reason.clone(), broken, fingerprint })
    }

    /// Whether it is the same failure.
    pub fn is_same(&self, other: &Failure) -> bool {
        self.fingerprint == other.fingerprint
    }
}

/// What is broken, and the words by which it is known.
fn broken(result: &ScenarioResult, scenario: &Value) -> (Broken, Vec<String>) {
    if let Some(splat) = splat(result) {
        let frames = splat.frames.iter().take(FRAMES).map(|frame| frame.symbol.clone()).collect();
        let broken = Broken::Splat { kind: splat.kind.clone(), title: splat.title.clone(), frames };
        return (broken, vec!["splat".into(), splat.fingerprint.clone()]);
    }
    // A step that a death broke off did nothing wrong: what killed the machine counts.
    let judged = matches!(result.status, Status::Failed | Status::Inconclusive);
    let step = result.steps.iter().position(|step| !step.passed).filter(|_| judged);
    // The verdict is named after what comes first in this order.
    if let Some(index) = step {
        let (item, written) = item(scenario, "steps", index, &result.steps[index].text);
        return (Broken::Step(item), vec!["step".into(), written, shape(&result.steps[index].detail)]);
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
        let (item, written) = item(scenario, "expect", index, &outcome.text);
        return (Broken::Expectation(item), vec!["expectation".into(), written, shape(&outcome.detail)]);
    }
    (Broken::Run, vec!["run".into(), shape(&result.reason)])
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
    let value = scenario.get(list).and_then(|list| list.get(index));
    let written = value.and_then(|value| serde_json::to_string(value).ok());
    let written = written.unwrap_or_else(|| text.to_owned());
    // Where items are not written one below the other, `text` only says which it is.
    let shown = if text == format!("{list}[{index}]") { written.clone() } else { text.to_owned() };
    (Item { number: index + 1, text: shown }, written)
}

fn digest(status: Status, marks: &[String]) -> String {
    let mut digest = Sha256::new();
    digest.update(status.name());
    for mark in marks {
        digest.update("\n");
        digest.update(mark);
    }
    let digits: String = digest.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{digits}", status.name())
}

/// The first words of a finding's first line, without numbers and what is in brackets with one.
fn shape(finding: &str) -> String {
    let line = finding.lines().next().unwrap_or_default();
    let line = without_brackets(line);
    let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    let is_word =
        |word: &&str| !word.is_empty() && !word.chars().any(|c| c.is_ascii_digit()) && !is_hex(word);
    words.filter(is_word).take(WORDS).collect::<Vec<_>>().join(" ")
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
