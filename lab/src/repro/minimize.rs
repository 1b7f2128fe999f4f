//! Minimizes a [`Reproducer`]: drops steps, events and expectations while it fails the same way.
//!
//! Tries halves of each list first, then smaller parts, then single items. The item that failed is never
//! dropped. The search knows nothing of machines: a callback tests whether a scenario still fails.

use super::{Outcome, run::Ready};
use crate::{
    reproducer::{Broken, Failure, Reproducer, still_needed},
    scenario::Scenario,
    yaml::{Value, flow},
};
use anyhow::{Context, Result, bail};
use std::path::Path;

/// The lists to minimize, in this order: checks before the things that they check.
const LISTS: [&[&str]; 6] = [
    &["expect"],
    &["steps"],
    &["trace", "events"],
    &["trace", "functions"],
    &["trace", "notrace"],
    &["trace", "graph_functions"],
];

/// The result of a minimization.
#[derive(Clone, Debug)]
pub struct Smaller {
    /// The minimized reproducer.
    pub reproducer: Reproducer,
    /// The dropped items, one line each.
    pub dropped: Vec<String>,
    /// The number of runs that it took.
    pub runs: usize,
}

/// Minimizes a reproducer. A candidate fails the same way if one of `attempts` runs does. Calls `tell`
/// with a line for each dropped item.
///
/// # Errors
/// It does not fail in the same way as the file says, or the lab fails.
pub fn minimize(
    ready: &mut Ready,
    reproducer: &Reproducer,
    attempts: u32,
    mut tell: impl FnMut(&str),
) -> Result<Smaller> {
    let task = ready.progress.task("minimizing", None);
    let mut runs = 0;
    // The failure as seen here; that in the file may be from another computer.
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
                Outcome::Unsupported(reason) => bail!("unsupported: {reason}"),
                Outcome::FailsDifferently(_) | Outcome::Passes => {}
            }
        }
        Ok(false)
    };
    if !same(&reproducer.scenario)? {
        bail!(
            "the failure did not recur in {attempts} runs; measure how often it does with `cargo xtask lab repro FILE --repeat N`"
        );
    }
    let (scenario, dropped) = shrink(&reproducer.scenario, &reproducer.verdict.broken, &mut same, &mut tell)?;
    let reproducer = reduced(reproducer, scenario, last)?;
    Ok(Smaller { reproducer, dropped, runs })
}

/// Returns the reproducer of a smaller scenario, without the files that only the larger one needed.
fn reduced(whole: &Reproducer, text: String, failure: Option<Failure>) -> Result<Reproducer> {
    let scenario = Scenario::parse(Path::new("scenario.yaml"), &text)?;
    let mut smaller = Reproducer { scenario: text, ..whole.clone() };
    smaller.files.retain(|path, _| still_needed(path, &scenario, &smaller.scenario));
    smaller.left_out.retain(|file| still_needed(&file.path, &scenario, &smaller.scenario));
    if let Some(failure) = failure {
        smaller.verdict = failure;
    }
    smaller.check().map_err(anyhow::Error::msg)?;
    Ok(smaller)
}

/// Returns the smallest scenario found, and the dropped items.
fn shrink(
    text: &str,
    broken: &Broken,
    same: &mut dyn FnMut(&str) -> Result<bool>,
    tell: &mut dyn FnMut(&str),
) -> Result<(String, Vec<String>)> {
    let mut document: Value = crate::yaml::from_str(text)?;
    let mut dropped = Vec::new();
    for path in LISTS {
        let Some(Value::Sequence(items)) = at(&mut document, path).cloned() else { continue };
        let keep = kept(path, broken);
        let mut left: Vec<usize> = (0..items.len()).collect();
        let mut size = left.len().div_ceil(2);
        while size > 0 {
            // From the end: later items depend on earlier ones.
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
    // Keep the original text if nothing was dropped.
    if dropped.is_empty() {
        return Ok((text.to_owned(), dropped));
    }
    Ok((crate::yaml::to_string(&document)?, dropped))
}

/// Returns the index of the item that failed, if it is in this list.
fn kept(path: &[&str], broken: &Broken) -> Option<usize> {
    match (path, broken) {
        (["expect"], Broken::Expectation(item)) | (["steps"], Broken::Step(item)) => {
            item.number.checked_sub(1)
        }
        _ => None,
    }
}

/// Returns whether it fails the same way with only `rest` of the items. If so, updates the document.
fn fails_without(
    document: &mut Value,
    path: &[&str],
    items: &[Value],
    rest: &[usize],
    same: &mut dyn FnMut(&str) -> Result<bool>,
) -> Result<bool> {
    let before = document.clone();
    let list = at(document, path).context("a list is missing")?;
    *list = Value::Sequence(rest.iter().map(|index| items[*index].clone()).collect());
    let text = crate::yaml::to_string(document)?;
    // If something else refers to a dropped item, it is not a valid scenario and cannot fail.
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
