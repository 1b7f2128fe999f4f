//! Judges a stored recording, without a kernel.

use super::conclude::{conclude, expectations};
use crate::{
    host::beneath::read_beneath,
    recording::{self, Recording},
    results::{SCENARIO, Verdict},
    scenario::Scenario,
    splat::Binaries,
};
use anyhow::Result;
use std::path::Path;

/// The maximum size of a stored scenario, in bytes, as of any scenario file.
const SCENARIO_MAX: u64 = 1 << 20;

/// Judges what is stored in a scenario's `directory`, and comes to the same verdict as the run.
///
/// The expectations, `allow`, `may_leave` and `expect_panic` of a given `scenario` replace those of the run. Steps
/// cannot be judged again: their results stand. If an older version of the lab stored the directory, only
/// expectations are judged.
///
/// # Errors
/// A stored file is missing or corrupt. A trace that cannot be read is a verdict.
pub fn judge_again(directory: &Path, scenario: Option<&Scenario>) -> Result<Verdict> {
    let stored = || -> Result<Scenario> {
        let source = String::from_utf8(read_beneath(directory, SCENARIO, SCENARIO_MAX)?)?;
        Ok(Scenario::parse(&directory.join(SCENARIO), &source)?)
    };
    let Some(recording) = Recording::load(directory)? else {
        let scenario = scenario.map_or_else(stored, |given| Ok(given.clone()))?;
        let (kernel_log, files) = recording::texts(directory)?;
        return Ok(Verdict::of(expectations(&scenario, directory, &kernel_log, &files)?));
    };
    let mut judged = stored()?;
    if let Some(given) = scenario {
        judged = Scenario { steps: judged.steps, ..given.clone() };
    }
    Ok(conclude(&judged, recording, directory, &Binaries::default()).verdict)
}

#[cfg(test)]
#[path = "rejudge_tests.rs"]
mod tests;
