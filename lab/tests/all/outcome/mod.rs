//! The result of a scenario, run for real.

use crate::built::built;
use lab::{
    guest::Guest,
    machine::Snapshots,
    results::ScenarioResult,
    run::Attempt,
    scenario::{Scenario, ScenarioFile},
};
use std::fs;
use tempfile::TempDir;

/// Runs a scenario with these fields.
pub(crate) fn result(fields: &str) -> ScenarioResult {
    result_with(&built().guest, fields)
}

/// Like [`result`], but with this guest.
pub(crate) fn result_with(guest: &Guest, fields: &str) -> ScenarioResult {
    result_in(&tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(), guest, fields)
}

/// Like [`result_with`], in this directory, which may have modules.
pub(crate) fn result_in(directory: &TempDir, guest: &Guest, fields: &str) -> ScenarioResult {
    let kernel = &built().kernel;
    let snapshots = Snapshots::new(&built().lab).unwrap();
    let path = directory.path().join("x.yaml");
    fs::write(&path, format!("summary: x\n{fields}\n")).unwrap();
    let scenario = Scenario::load(&path).unwrap();
    let found = ScenarioFile { name: "x".into(), path };
    Attempt {
        kernel,
        guest,
        found: &found,
        scenario: &scenario,
        repeat: None,
        run: &directory.path().join("results"),
    }
    .execute(&snapshots)
    .unwrap()
}
