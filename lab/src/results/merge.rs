//! Merges several runs, or parts of runs, into one [`Results`].
//!
//! Rejects runs that cannot be merged: the same scenario in two of them, or parts of different splits.
//! Incomplete input is reported with the merged results: missing parts, interrupted runs, a kernel that
//! differs between runs.

use super::{
    KernelInfo, Results, Run, ScenarioResult, Status,
    directories::check_directories,
    parts::{again, again_on, missing_parts},
};
use std::{collections::BTreeMap, path::PathBuf};

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
    /// Why it is incomplete; empty if it is complete.
    pub gaps: Vec<Gap>,
}

/// Something that is missing from merged results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// What is missing, in a sentence.
    pub what: String,
    /// The arguments of `lab run` that run it, if the other parts tell.
    pub again: Option<String>,
}

/// The reason why runs cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot merge: {0}")]
pub struct MergeError(pub(super) String);

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
        let (directory, count) = (part.directory.display(), part.results.scenarios.len());
        let what = format!("`{directory}` ended after {count} scenarios, without the rest");
        gaps.push(Gap { what, again: again(part) });
    }
    let (infos, differing) = kernels_of(parts);
    gaps.extend(differing);
    let absent = kernels.iter().filter(|name| infos.iter().all(|info| info.name != **name));
    gaps.extend(
        absent.map(|name| Gap {
            what: format!("no results for the kernel {name}"),
            again: again_on(parts, name),
        }),
    );
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
        options: None,
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

/// Returns each kernel once, and a gap for each that differs between parts.
fn kernels_of(parts: &[MergeInput]) -> (Vec<KernelInfo>, Vec<Gap>) {
    let mut kernels: Vec<KernelInfo> = Vec::new();
    let mut differing = Vec::new();
    for part in parts {
        for info in &part.results.kernels {
            let is = |info: &KernelInfo| (info.source_version.clone(), info.config_hash.clone());
            match kernels.iter().find(|known| known.name == info.name) {
                None => kernels.push(info.clone()),
                Some(known) if is(known) == is(info) => {}
                Some(known) => differing.push(Gap {
                    what: format!(
                        "the kernel {} in `{}` is {}; its source or configuration differs from {} in other runs",
                        info.name,
                        part.directory.display(),
                        info.source_version,
                        known.source_version
                    ),
                    again: again(part),
                }),
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
