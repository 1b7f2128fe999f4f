//! A stored run, looked at again: its scenarios, and what expectations come to on its traces.

use crate::{
    recording,
    report::Results,
    scenario::Scenario,
    trace::Trace,
    verdict::{Evidence, Outcome, judge},
};
use anyhow::{Context, Result, bail};
use std::{
    collections::BTreeMap,
    fs,
    path::{Component, Path, PathBuf},
};

/// The scenario as it was run, beside its trace.
pub const SCENARIO: &str = "scenario.yaml";

/// The trace of a scenario.
pub const TRACE: &str = "trace.dat";

/// The trace of a tracing instance of a scenario, beside the top-level one's: `trace.NAME.dat`.
pub fn trace_of(instance: Option<&str>) -> String {
    instance.map_or_else(|| TRACE.to_owned(), |name| format!("trace.{name}.dat"))
}

/// The directories of the scenarios below `directory`: itself, if it is one's, else those that its
/// `results.json` names and that have a trace.
pub fn scenarios(directory: &Path) -> Result<Vec<PathBuf>> {
    if directory.join(TRACE).is_file() {
        return Ok(vec![directory.to_owned()]);
    }
    let path = directory.join("results.json");
    let json = fs::read(&path).with_context(|| {
        format!("`{}` has neither `{TRACE}` nor `results.json`: it is no result", directory.display())
    })?;
    let results: Results =
        serde_json::from_slice(&json).with_context(|| format!("`{}` is damaged", path.display()))?;
    let below = |name: &str| {
        let inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
        inside.then(|| directory.join(name))
    };
    let found: Option<Vec<_>> = results.scenarios.iter().map(|scenario| below(&scenario.directory)).collect();
    let found =
        found.with_context(|| format!("`{}` names a directory outside of its own", path.display()))?;
    let found: Vec<_> = found.into_iter().filter(|directory| directory.join(TRACE).is_file()).collect();
    if found.is_empty() {
        bail!("no scenario of `{}` left a trace", directory.display());
    }
    Ok(found)
}

/// What expectations come to on the trace in a scenario's `directory`: those it was run with, or
/// those of another file.
pub fn judge_again(directory: &Path, scenario: Option<&Scenario>) -> Result<Vec<Outcome>> {
    let own;
    let scenario = match scenario {
        Some(scenario) => scenario,
        None => {
            own = Scenario::load(&directory.join(SCENARIO))?;
            &own
        }
    };
    let trace = Trace::open(&directory.join(TRACE))?;
    let mut instances = BTreeMap::new();
    for name in scenario.trace.instances() {
        let path = directory.join(trace_of(Some(name)));
        instances.insert(name.to_owned(), Trace::open(&path)?);
    }
    let (kernel_log, files) = recording::stored(directory)?;
    let outputs = recording::outputs(directory, &scenario.evidence_outputs());
    let (kernel_log, files, outputs) = (&kernel_log, &files, &outputs);
    judge(scenario, &Evidence { trace: &trace, instances: &instances, kernel_log, files, outputs })
}
