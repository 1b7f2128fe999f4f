//! Several runs, or parts of runs → one [`Results`].
//!
//! What cannot be one report is refused: a scenario that two of them have, parts of different splits.
//! What is lacking is named and does not keep the rest from being told: parts that are missing, runs
//! that were broken off, a kernel that was not the same everywhere.

use super::{KernelInfo, Results, Run, ScenarioResult};
use crate::verdict::Status;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

/// A run, or a part of one.
#[derive(Clone, Debug)]
pub struct Part {
    /// Where it is.
    pub directory: PathBuf,
    /// What it found.
    pub results: Results,
}

/// What several runs make together.
#[derive(Clone, Debug)]
pub struct Merged {
    /// The results, those of each part in their order. Directories are as they were, relative to the
    /// parts.
    pub results: Results,
    /// For each result, the number of the part it is of.
    pub origins: Vec<usize>,
    /// Why it is not the whole, a sentence each; empty if it is.
    pub lacking: Vec<String>,
}

/// Runs that cannot be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot merge: {0}")]
pub struct Refused(String);

/// Puts runs together; `kernels` are those that have to be there.
pub fn merge(parts: &[Part], kernels: &[String]) -> Result<Merged, Refused> {
    let Some(first) = parts.first() else { return Err(Refused("there is no run".into())) };
    refuse_twice(parts)?;
    let mut lacking = missing_parts(parts)?;
    for part in parts.iter().filter(|part| !part.results.run.complete) {
        let count = part.results.scenarios.len();
        lacking.push(format!("`{}` was broken off after {count} scenarios", part.directory.display()));
    }
    let (infos, differing) = kernels_of(parts);
    lacking.extend(differing);
    let absent = kernels.iter().filter(|name| infos.iter().all(|info| info.name != **name));
    lacking.extend(absent.map(|name| format!("there is nothing from the kernel {name}")));
    let cases = parts.iter().enumerate().flat_map(|(number, part)| {
        part.results.scenarios.iter().map(move |scenario| (number, scenario.clone()))
    });
    let (origins, scenarios) = cases.unzip();
    let runs = || parts.iter().map(|part| &part.results.run);
    let run = Run {
        started: runs().map(|run| run.started.clone()).min().unwrap_or_default(),
        // They are taken to have run side by side.
        seconds: runs().map(|run| run.seconds).fold(0.0, f64::max),
        first_machine_micros: runs().map(|run| run.first_machine_micros).min().unwrap_or_default(),
        restored_ahead: runs().map(|run| run.restored_ahead).sum(),
        complete: lacking.is_empty(),
        shuffle: None,
        shard: None,
        cases: None,
    };
    let (host, qemu) = (first.results.host.clone(), first.results.qemu.clone());
    let results = Results { schema: first.results.schema, run, host, qemu, kernels: infos, scenarios };
    Ok(Merged { results, origins, lacking })
}

fn refuse_twice(parts: &[Part]) -> Result<(), Refused> {
    let mut seen = BTreeMap::new();
    for part in parts {
        for result in &part.results.scenarios {
            if let Some(other) = seen.insert((&result.kernel, result.label()), &part.directory) {
                let (label, kernel) = (result.label(), &result.kernel);
                let (one, two) = (other.display(), part.directory.display());
                return Err(Refused(format!("`{label}` on {kernel} is in `{one}` and in `{two}`")));
            }
        }
    }
    Ok(())
}

/// The parts of one split.
struct Split<'a> {
    of: usize,
    cases: Option<usize>,
    numbers: BTreeMap<usize, &'a Part>,
}

/// What is missing of each split. A kernel that two splits have parts of is refused: together they
/// would have some scenarios twice, or never.
fn missing_parts(parts: &[Part]) -> Result<Vec<String>, Refused> {
    let mut splits: BTreeMap<&str, Split<'_>> = BTreeMap::new();
    let mut split_of: BTreeMap<&str, (&str, &Part)> = BTreeMap::new();
    for part in parts {
        let here = part.directory.display();
        let (name, number, of) = match &part.results.run.shard {
            Some(shard) => parsed(shard).ok_or_else(|| {
                Refused(format!("`{here}` is the part `{shard}`, expected such as `2/5 of 4f2a91c0`"))
            })?,
            None => ("", 1, 1),
        };
        for kernel in &part.results.kernels {
            let (other, whose) = *split_of.entry(&kernel.name).or_insert((name, part));
            if other != name {
                return Err(Refused(format!(
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
            return Err(Refused(format!("`{here}` is one of {of} parts of {name}, others of {}", split.of)));
        }
        if let Some(other) = split.numbers.insert(number, part) {
            let other = other.directory.display();
            return Err(Refused(format!("`{other}` and `{here}` are both part {number}/{of} of {name}")));
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
        // A part with nothing to run leaves nothing.
        let missing: Vec<_> = (1..=self.of).filter(|number| !self.numbers.contains_key(number)).collect();
        if missing.is_empty() || self.cases == Some(found.len()) {
            return None;
        }
        let missing =
            missing.iter().map(|number| format!("{number}/{}", self.of)).collect::<Vec<_>>().join(", ");
        let kernels = kernels.into_iter().collect::<Vec<_>>().join(", ");
        Some(format!("of the split {name} of {kernels} these parts are missing: {missing}"))
    }
}

/// The name, number and count of `2/5 of 4f2a91c0`.
fn parsed(shard: &str) -> Option<(&str, usize, usize)> {
    let (part, name) = shard.split_once(" of ")?;
    let (number, of) = part.split_once('/')?;
    let (number, of) = (number.parse().ok()?, of.parse().ok()?);
    (!name.is_empty() && (1..=of).contains(&number) && of <= 10_000).then_some((name, number, of))
}

/// Each kernel once, and those that were another one somewhere.
fn kernels_of(parts: &[Part]) -> (Vec<KernelInfo>, Vec<String>) {
    let mut kernels: Vec<KernelInfo> = Vec::new();
    let mut differing = Vec::new();
    for part in parts {
        for info in &part.results.kernels {
            let is = |info: &KernelInfo| (info.source_version.clone(), info.config_hash.clone());
            match kernels.iter().find(|known| known.name == info.name) {
                None => kernels.push(info.clone()),
                Some(known) if is(known) == is(info) => {}
                Some(known) => differing.push(format!(
                    "the kernel {} of `{}` is {}, with another source or configuration than {} elsewhere",
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

/// What the last report says of the results now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SinceLast {
    /// Passed then and fails now: name and kernel.
    pub regressed: Vec<(String, String)>,
    /// Failed then and passes now.
    pub mended: Vec<(String, String)>,
    /// Passed then, and is unsupported or not there now.
    pub gone: Vec<(String, String)>,
}

/// Compares with the last report. With repeats, a scenario passed if all of them did.
pub fn since(last: &Results, now: &Results) -> SinceLast {
    let (last, now) = (ends(last), ends(now));
    let mut since = SinceLast::default();
    for (&(kernel, name), &then) in &last {
        let case = (name.to_owned(), kernel.to_owned());
        match (then, now.get(&(kernel, name))) {
            (Status::Passed, None | Some(Status::Unsupported)) => since.gone.push(case),
            (Status::Passed, Some(now)) if !now.is_good() => since.regressed.push(case),
            (then, Some(Status::Passed)) if !then.is_good() => since.mended.push(case),
            _ => {}
        }
    }
    since
}

/// How each scenario ended: of repeats the first that did not end well, if there is one.
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
