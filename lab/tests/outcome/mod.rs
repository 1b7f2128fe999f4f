//! What comes of a scenario, run for real.

use crate::built::built;
use lab::{
    cache::Cache,
    guest::Guest,
    machine::Snapshots,
    progress::Progress,
    report::ScenarioResult,
    run,
    scenario::{Found, Scenario},
};
use std::fs;

/// The result of a scenario of these fields.
pub(crate) fn result(fields: &str) -> ScenarioResult {
    result_with(&built().guest, fields)
}

/// The same with what runs in the guest.
pub(crate) fn result_with(guest: &Guest, fields: &str) -> ScenarioResult {
    let kernel = &built().kernel;
    let snapshots = Snapshots::new(&Cache::open().unwrap(), &Progress::new()).unwrap();
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("x.yaml");
    fs::write(&path, format!("summary: x\n{fields}\n")).unwrap();
    let scenario = Scenario::load(&path).unwrap();
    let found = Found { name: "x".into(), path };
    run::one(kernel, guest, &snapshots, &found, &scenario, &directory.path().join("results")).unwrap()
}
