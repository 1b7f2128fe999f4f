//! Merges several runs, or parts of runs, into one [`Results`].
//!
//! Rejects runs that cannot be merged: the same scenario in two of them, or parts of different splits.
//! Incomplete input is reported with the merged results: missing parts, interrupted runs, a kernel that
//! differs between runs.

use super::{KernelInfo, Results, Run, ScenarioResult, directories::check_directories};
use crate::results::Status;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

/// A run, or a part of one.
#[derive(Clone, Debug)]
pub struct MergeInput {
    /// The directory that contains it.
    pub directory: PathBuf,
    /// Its results.
    pub results: Results,
}

/// The merged results of several runs.
#[derive(Clone, Debug)]
pub struct Merged {
    /// The results, part by part in their order. Directories are unchanged, relative to the parts.
    pub results: Results,
    /// For each result, the index of its part.
    pub origins: Vec<usize>,
    /// Why it is incomplete, one sentence per reason; empty if it is complete.
    pub gaps: Vec<String>,
}

/// The reason why runs cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot merge: {0}")]
pub struct MergeError(String);

/// Merges runs. Results are required for each of `kernels`.
pub fn merge(parts: &[MergeInput], kernels: &[String]) -> Result<Merged, MergeError> {
    let Some(first) = parts.first() else { return Err(MergeError("no runs given".into())) };
    refuse_twice(parts)?;
    let results = parts
        .iter()
        .flat_map(|part| part.results.scenarios.iter().map(move |result| (&*part.directory, result)));
    check_directories(results).map_err(MergeError)?;
    let mut gaps = missing_parts(parts)?;
    for part in parts.iter().filter(|part| !part.results.run.complete) {
        let count = part.results.scenarios.len();
        gaps.push(format!("`{}` ended after {count} scenarios, without the rest", part.directory.display()));
    }
    let (infos, differing) = kernels_of(parts);
    gaps.extend(differing);
    let absent = kernels.iter().filter(|name| infos.iter().all(|info| info.name != **name));
    gaps.extend(absent.map(|name| format!("no results for the kernel {name}")));
    let cases = parts.iter().enumerate().flat_map(|(number, part)| {
        part.results.scenarios.iter().map(move |scenario| (number, scenario.clone()))
    });
    let (origins, scenarios) = cases.unzip();
    let runs = || parts.iter().map(|part| &part.results.run);
    let run = Run {
        started: runs().map(|run| run.started.clone()).min().unwrap_or_default(),
        // They are assumed to have run in parallel.
        seconds: runs().map(|run| run.seconds).fold(0.0, f64::max),
        first_machine_micros: runs().map(|run| run.first_machine_micros).min().unwrap_or_default(),
        restored_ahead: runs().map(|run| run.restored_ahead).fold(0, usize::saturating_add),
        complete: gaps.is_empty(),
        shuffle: None,
        shard: None,
        cases: None,
    };
    let (host, qemu) = (first.results.host.clone(), first.results.qemu.clone());
    let results = Results { schema: first.results.schema, run, host, qemu, kernels: infos, scenarios };
    Ok(Merged { results, origins, gaps })
}

fn refuse_twice(parts: &[MergeInput]) -> Result<(), MergeError> {
    let mut seen = BTreeMap::new();
    for part in parts {
        for result in &part.results.scenarios {
            if let Some(other) = seen.insert((&result.kernel, result.label()), &part.directory) {
                let (label, kernel) = (result.label(), &result.kernel);
                let (one, two) = (other.display(), part.directory.display());
                return Err(MergeError(format!("`{label}` on {kernel} is in both `{one}` and `{two}`")));
            }
        }
    }
    Ok(())
}

/// The parts of one split.
struct Split<'a> {
    of: usize,
    cases: Option<usize>,
    numbers: BTreeMap<usize, &'a MergeInput>,
}

/// Returns the missing parts of each split. Rejects parts of two splits of one kernel: merged, some
/// scenarios would be there twice or not at all.
fn missing_parts(parts: &[MergeInput]) -> Result<Vec<String>, MergeError> {
    let mut splits: BTreeMap<&str, Split<'_>> = BTreeMap::new();
    let mut split_of: BTreeMap<&str, (&str, &MergeInput)> = BTreeMap::new();
    for part in parts {
        let here = part.directory.display();
        let (name, number, of) = match &part.results.run.shard {
            Some(shard) => parsed(shard).ok_or_else(|| {
                MergeError(format!("`{here}` has the shard `{shard}`, expected one like `2/5 of 4f2a91c0`"))
            })?,
            None => ("", 1, 1),
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
    Ok(splits.iter().filter_map(|(name, split)| split.missing(name)).collect())
}

impl Split<'_> {
    fn missing(&self, name: &str) -> Option<String> {
        let mut found = BTreeSet::new();
        let mut kernels = BTreeSet::new();
        for part in self.numbers.values() {
            found.extend(part.results.scenarios.iter().map(|result| (&result.kernel, &result.name)));
            kernels.extend(part.results.kernels.iter().map(|kernel| kernel.name.as_str()));
        }
        // A part without scenarios leaves no results.
        let missing: Vec<_> = (1..=self.of).filter(|number| !self.numbers.contains_key(number)).collect();
        if missing.is_empty() || self.cases == Some(found.len()) {
            return None;
        }
        let missing =
            missing.iter().map(|number| format!("{number}/{}", self.of)).collect::<Vec<_>>().join(", ");
        let kernels = kernels.into_iter().collect::<Vec<_>>().join(", ");
        Some(format!("the split {name} of {kernels} has missing parts: {missing}"))
    }
}

/// Parses a shard such as `2/5 of 4f2a91c0` into name, number and count.
fn parsed(shard: &str) -> Option<(&str, usize, usize)> {
    let (part, name) = shard.split_once(" of ")?;
    let (number, of) = part.split_once('/')?;
    let (number, of) = (number.parse().ok()?, of.parse().ok()?);
    (!name.is_empty() && (1..=of).contains(&number) && of <= 10_000).then_some((name, number, of))
}

/// Returns each kernel once, and a sentence for each that differs between parts.
fn kernels_of(parts: &[MergeInput]) -> (Vec<KernelInfo>, Vec<String>) {
    let mut kernels: Vec<KernelInfo> = Vec::new();
    let mut differing = Vec::new();
    for part in parts {
        for info in &part.results.kernels {
            let is = |info: &KernelInfo| (info.source_version.clone(), info.config_hash.clone());
            match kernels.iter().find(|known| known.name == info.name) {
                None => kernels.push(info.clone()),
                Some(known) if is(known) == is(info) => {}
                Some(known) => differing.push(format!(
                    "the kernel {} in `{}` is {}; its source or configuration differs from {} in other runs",
                    info.name,
                    part.directory.display(),
                    info.source_version,
                    known.source_version
                )),
            }
        }
    }
    (kernels, differing)
}

/// The changes of results since the last report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// Did not fail then and fails now: name and kernel.
    pub regressed: Vec<(String, String)>,
    /// Failed then and passes now.
    pub fixed: Vec<(String, String)>,
    /// Passed then and is unsupported or missing now.
    pub gone: Vec<(String, String)>,
}

/// Compares with the last report. With repeats, a scenario passed if all of its runs did.
pub fn since(last: &Results, now: &Results) -> Delta {
    let (last, now) = (ends(last), ends(now));
    let mut since = Delta::default();
    for (&(kernel, name), &then) in &last {
        let case = (name.to_owned(), kernel.to_owned());
        match (then, now.get(&(kernel, name))) {
            (Status::Passed, None | Some(Status::Unsupported)) => since.gone.push(case),
            (then, Some(now)) if then.is_good() && !now.is_good() => since.regressed.push(case),
            (then, Some(Status::Passed)) if !then.is_good() => since.fixed.push(case),
            _ => {}
        }
    }
    since
}

/// Returns how each scenario ended: the first failure among repeats, if there is one.
fn ends(results: &Results) -> BTreeMap<(&str, &str), Status> {
    let mut ends: BTreeMap<(&str, &str), Status> = BTreeMap::new();
    for result in &results.scenarios {
        let ScenarioResult { kernel, name, status, .. } = result;
        let end = ends.entry((kernel, name)).or_insert(*status);
        if end.is_good() && !status.is_good() {
            *end = *status;
        }
    }
    ends
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
