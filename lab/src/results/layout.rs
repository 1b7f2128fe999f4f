//! The scenarios of a stored run, and the names of their files.

use super::stored_results;
use crate::host::beneath::directory_beneath;
use anyhow::{Context, Result, bail};
use std::{
    io,
    path::{Path, PathBuf},
};

/// The scenario as it was run, next to its trace.
pub const SCENARIO: &str = "scenario.yaml";

/// The facts about a run of a scenario.
pub const RECORDING: &str = "recording.json";

/// The trace of a scenario's top-level tracing instance.
pub const TRACE: &str = "trace.dat";

/// The code that a machine ran, of a scenario that was measured.
pub const COVERAGE: &str = "coverage";

/// The code that the kernel ran until its snapshot was made, in the directory of the kernel.
pub const BOOT_COVERAGE: &str = "boot.coverage";

/// The same for what an empty scenario ran: the lab's own part in each scenario.
pub const EMPTY_COVERAGE: &str = "empty.coverage";

/// Returns the file name of an instance's trace: `trace.NAME.dat`, or [`TRACE`] for the top-level one.
pub fn trace_of(instance: Option<&str>) -> String {
    instance.map_or_else(|| TRACE.to_owned(), |name| format!("trace.{name}.dat"))
}

/// Returns the directories of the scenarios below `directory`: `directory` itself if it is one, otherwise
/// those that its `results.json` names. Each has a recording or, from an older version, a trace.
pub fn scenarios(directory: &Path) -> Result<Vec<PathBuf>> {
    let is_recorded = |directory: &Path| [RECORDING, TRACE].iter().any(|file| directory.join(file).is_file());
    if is_recorded(directory) {
        return Ok(vec![directory.to_owned()]);
    }
    let results = stored_results(directory).with_context(|| {
        format!("`{}` is neither a result with `{RECORDING}` nor a run", directory.display())
    })?;
    let named = results.scenarios.iter().filter(|result| !result.directory.is_empty());
    let mut found = Vec::new();
    for result in named {
        match directory_beneath(directory, &result.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            place => found.extend(Some(place?).filter(|place| is_recorded(place))),
        }
    }
    if found.is_empty() {
        bail!("no scenario of `{}` has a recording", directory.display());
    }
    Ok(found)
}
