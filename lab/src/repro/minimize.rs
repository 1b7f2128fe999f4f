//! A [`Reproducer`] → a smaller one that fails the same way: steps, events and expectations are dropped
//! for as long as it does.
//!
//! Halves of each list are tried first, then smaller parts, then single items. What the failure is about
//! is never tried. The search knows nothing of machines: whether a scenario still fails is asked.

use super::{
    Outcome, Reproducer,
    fingerprint::{Broken, Failure},
    flow, parts,
    run::Ready,
};
use crate::{progress::Progress, scenario::Scenario};
use anyhow::{Context, Result, bail};
use serde_yaml::Value;
use std::path::Path;

/// The lists that are made smaller, in this order: what judges before what is judged.
const LISTS: [&[&str]; 6] = [
    &["expect"],
    &["steps"],
    &["trace", "events"],
    &["trace", "functions"],
    &["trace", "notrace"],
    &["trace", "graph_functions"],
];

/// What was found.
#[derive(Clone, Debug)]
pub struct Smaller {
    /// The same failure with less.
    pub reproducer: Reproducer,
    /// What was dropped, one line each.
    pub dropped: Vec<String>,
    /// How many runs that took.
    pub runs: usize,
}

/// Makes a reproducer smaller. A candidate fails the same way if one of `attempts` runs does. `tell` is
/// given a line whenever something was dropped.
///
/// # Errors
/// It does not fail as the file says, or the lab cannot do its part.
pub fn minimize(
    ready: &mut Ready,
    reproducer: &Reproducer,
    attempts: u32,
    progress: &Progress,
    mut tell: impl FnMut(&str),
) -> Result<Smaller> {
    let task = progress.task("looking for less", None);
    let mut runs = 0;
    // As it fails here and now; the file's may be of another machine.
    let mut whole: Option<Failure> = None;
    let mut last = None;
    let mut same = |text: &str| {
        ready.change(text)?;
        for _ in 0..attempts {
            runs += 1;
            task.set(runs as u64);
            let (outcome, now) = ready.once()?;
            match outcome {
                Outcome::Reproduced => {
                    let exactly = |now: &Failure| whole.as_ref().is_none_or(|whole| now.is_exactly(whole));
                    if now.as_ref().is_some_and(exactly) {
                        whole = whole.take().or_else(|| now.clone());
                        last = now;
                        return Ok(true);
                    }
                }
                Outcome::Unsupported(reason) => bail!("it cannot run: {reason}"),
                Outcome::FailsOtherwise(_) | Outcome::Passes => {}
            }
        }
        Ok(false)
    };
    if !same(&reproducer.scenario)? {
        bail!(
            "it does not fail as it did, in {attempts} runs; `cargo xtask lab repro FILE --repeat N` tells how often it does"
        );
    }
    let (scenario, dropped) = shrink(&reproducer.scenario, &reproducer.verdict.broken, &mut same, &mut tell)?;
    let reproducer = reduced(reproducer, scenario, last)?;
    Ok(Smaller { reproducer, dropped, runs })
}

/// The reproducer of a smaller scenario, without the files that only the larger one needed.
fn reduced(whole: &Reproducer, text: String, failure: Option<Failure>) -> Result<Reproducer> {
    let scenario = Scenario::parse(Path::new("scenario.yaml"), &text)?;
    let mut smaller = Reproducer { scenario: text, ..whole.clone() };
    smaller.files.retain(|path, _| parts::still_needed(path, &scenario, &smaller.scenario));
    smaller.left_out.retain(|file| parts::still_needed(&file.path, &scenario, &smaller.scenario));
    if let Some(failure) = failure {
        smaller.verdict = failure;
    }
    smaller.check().map_err(anyhow::Error::msg)?;
    Ok(smaller)
}

/// The smallest scenario that was found, and what is not in it any more.
fn shrink(
    text: &str,
    broken: &Broken,
    same: &mut dyn FnMut(&str) -> Result<bool>,
    tell: &mut dyn FnMut(&str),
) -> Result<(String, Vec<String>)> {
    let mut document: Value = serde_yaml::from_str(text)?;
    let mut dropped = Vec::new();
    for path in LISTS {
        let Some(Value::Sequence(items)) = at(&mut document, path).cloned() else { continue };
        let keep = kept(path, broken);
        let mut left: Vec<usize> = (0..items.len()).collect();
        let mut size = left.len().div_ceil(2);
        while size > 0 {
            // From the end: what comes later depends on what was before.
            let mut end = left.len();
            while end > 0 {
                let start = end.saturating_sub(size);
                let without = |index: &usize| keep == Some(*index) || !left[start..end].contains(index);
                let rest: Vec<usize> = left.iter().copied().filter(without).collect();
                if rest.len() < left.len() && fails_without(&mut document, path, &items, &rest, same)? {
                    for gone in left.iter().filter(|index| !rest.contains(index)) {
                        let line =
                            format!("{}[{}]: {}", path.join("."), gone + 1, flow::shown(&items[*gone]));
                        tell(&line);
                        dropped.push(line);
                    }
                    left = rest;
                }
                end = start.min(left.len());
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
    }
    // As it was written, where nothing is to be gained.
    if dropped.is_empty() {
        return Ok((text.to_owned(), dropped));
    }
    Ok((serde_yaml::to_string(&document)?, dropped))
}

/// The item that the failure is about.
fn kept(path: &[&str], broken: &Broken) -> Option<usize> {
    match (path, broken) {
        (["expect"], Broken::Expectation(item)) | (["steps"], Broken::Step(item)) => {
            item.number.checked_sub(1)
        }
        _ => None,
    }
}

/// Whether it fails the same way with only `rest` of the items; then the document has only those.
fn fails_without(
    document: &mut Value,
    path: &[&str],
    items: &[Value],
    rest: &[usize],
    same: &mut dyn FnMut(&str) -> Result<bool>,
) -> Result<bool> {
    let before = document.clone();
    let list = at(document, path).context("a list is gone")?;
    *list = Value::Sequence(rest.iter().map(|index| items[*index].clone()).collect());
    let text = serde_yaml::to_string(document)?;
    // What is no scenario any more, for something else refers to what was dropped, fails in no way.
    let fails = Scenario::parse(Path::new("scenario.yaml"), &text).is_ok() && same(&text)?;
    if !fails {
        *document = before;
    }
    Ok(fails)
}

fn at<'a>(document: &'a mut Value, path: &[&str]) -> Option<&'a mut Value> {
    path.iter().try_fold(document, |value, key| value.get_mut(*key))
}

#[cfg(test)]
#[path = "minimize_tests.rs"]
mod tests;
