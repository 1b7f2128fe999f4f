//! The parts of a split: which are missing, which were run again, and how a part is run again.

use super::{Gap, MergeError, MergeInput, PartOptions, ScenarioResult, Shard};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

/// Drops runs of a part that were interrupted, if another run of that part has more: a part whose machine was lost
/// is run again. Returns the others, and a sentence for each that was dropped.
pub fn last_tries(mut runs: Vec<MergeInput>) -> (Vec<MergeInput>, Vec<String>) {
    let mut best: BTreeMap<String, (Reverse<(bool, usize)>, String)> = BTreeMap::new();
    for run in &runs {
        let Some(shard) = run.results.run.shard.clone() else { continue };
        let this = (progress(run), run.directory.display().to_string());
        let known = best.entry(shard).or_insert_with(|| this.clone());
        if this.0 < known.0 {
            *known = this;
        }
    }
    let mut dropped = Vec::new();
    runs.retain(|run| {
        let best = run.results.run.shard.as_ref().and_then(|shard| best.get(shard));
        let Some((_, by)) = best.filter(|(_, by)| run.directory.display().to_string() != *by) else {
            return true;
        };
        if run.results.run.complete {
            // Two results of one part: which one counts is not for the lab to choose.
            return true;
        }
        let results = &run.results.scenarios;
        let failed = results.iter().filter(|result| !result.status.is_good()).count();
        dropped.push(format!(
            "`{}` was interrupted after {} scenarios, {failed} of which failed; `{by}` counts instead",
            run.directory.display(),
            results.len()
        ));
        false
    });
    (runs, dropped)
}

/// Orders the runs of a part, the best one first.
fn progress(run: &MergeInput) -> Reverse<(bool, usize)> {
    Reverse((run.results.run.complete, run.results.scenarios.len()))
}

/// Returns the arguments of `lab run` that run this part again.
pub(super) fn again(part: &MergeInput) -> Option<String> {
    let run = &part.results.run;
    Some(run.options.as_ref()?.arguments(run.shard.as_ref()?))
}

/// Returns the arguments of `lab run` that run on another kernel what these parts ran on theirs.
pub(super) fn again_on(parts: &[MergeInput], kernel: &str) -> Option<String> {
    let options = parts.iter().find_map(|part| part.results.run.options.clone())?;
    // Nothing of this kernel's split is known, so all of it is one part.
    Some(PartOptions { kernels: vec![kernel.to_owned()], times: Vec::new(), ..options }.arguments("1/1"))
}

/// The parts of one split.
struct Split<'a> {
    of: usize,
    cases: Option<usize>,
    numbers: BTreeMap<usize, &'a MergeInput>,
}

/// Returns the missing parts of each split. Rejects parts of two splits of one kernel: merged, some
/// scenarios would be there twice or not at all.
pub(super) fn missing_parts(parts: &[MergeInput]) -> Result<Vec<Gap>, MergeError> {
    let mut splits: BTreeMap<&str, Split<'_>> = BTreeMap::new();
    let mut split_of: BTreeMap<&str, (&str, &MergeInput)> = BTreeMap::new();
    for part in parts {
        let here = part.directory.display();
        let (name, Shard { number, of }) = match &part.results.run.shard {
            Some(shard) => parsed(shard).ok_or_else(|| {
                MergeError(format!("`{here}` has the shard `{shard}`, expected one like `2/5 of 4f2a91c0`"))
            })?,
            None => ("", Shard { number: 1, of: 1 }),
        };
        for kernel in &part.results.kernels {
            let (other, whose) = *split_of.entry(&kernel.name).or_insert((name, part));
            if other != name {
                return Err(MergeError(format!(
                    "`{}` and `{here}` have parts of different splits of the kernel {}; give all machines \
                     the same scenarios and the same --times",
                    whose.directory.display(),
                    kernel.name
                )));
            }
        }
        if name.is_empty() {
            continue;
        }
        let cases = part.results.run.cases;
        let split = splits.entry(name).or_insert(Split { of, cases, numbers: BTreeMap::new() });
        if split.of != of || split.cases != cases {
            return Err(MergeError(format!(
                "`{here}` is one of {of} parts of {name}, others are of {}",
                split.of
            )));
        }
        if let Some(other) = split.numbers.insert(number, part) {
            let other = other.directory.display();
            return Err(MergeError(format!("`{other}` and `{here}` are both part {number}/{of} of {name}")));
        }
    }
    Ok(splits.iter().flat_map(|(name, split)| split.missing(name)).collect())
}

impl Split<'_> {
    fn missing(&self, name: &str) -> Vec<Gap> {
        let found: BTreeSet<_> =
            self.results().map(|result| (&result.kernel, &result.name, result.repeat)).collect();
        // A part without scenarios leaves no results.
        if self.cases == Some(found.len()) {
            return Vec::new();
        }
        let kernels = self.numbers.values().flat_map(|part| &part.results.kernels);
        let kernels: BTreeSet<_> = kernels.map(|kernel| kernel.name.as_str()).collect();
        let kernels = kernels.into_iter().collect::<Vec<_>>().join(", ");
        let options = self.numbers.values().find_map(|part| part.results.run.options.as_ref());
        let missing = (1..=self.of).filter(|number| !self.numbers.contains_key(number));
        let gap = |number: usize| {
            let shard = format!("{number}/{} of {name}", self.of);
            let again = options.map(|options| options.arguments(&shard));
            Gap { what: format!("part {shard}, of {kernels}, is missing"), again }
        };
        missing.map(gap).collect()
    }

    fn results(&self) -> impl Iterator<Item = &ScenarioResult> {
        self.numbers.values().flat_map(|part| &part.results.scenarios)
    }
}

/// Parses a shard such as `2/5 of 4f2a91c0` into name and part.
fn parsed(shard: &str) -> Option<(&str, Shard)> {
    let (part, name) = shard.split_once(" of ").filter(|(_, name)| !name.is_empty())?;
    Some((name, part.parse().ok()?))
}
