//! `bench coverage`: measures the cost of noting which code runs.

use super::{Figures, median};
use crate::context::Lab;
use anyhow::{Result, ensure};
use std::{
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

/// The scenarios, below the repository's root.
const SCENARIOS: &str = "scenarios/probes";

/// The number of runs with and without; they alternate, and the median counts.
const ROUNDS: usize = 3;

/// Runs the scenarios of one area by `program`, an xtask, with and without coverage.
pub fn coverage(lab: &Lab, program: &Path) -> Result<Figures> {
    let directory = tempfile::tempdir_in(lab.cache.directory("bench")?)?;
    let seconds = |arguments: &[&str]| -> Result<f64> {
        let started = Instant::now();
        let status = Command::new(program)
            .args(["lab", "run", SCENARIOS, "--results"])
            .arg(directory.path())
            .args(arguments)
            .current_dir(&lab.root)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        ensure!(status.success(), "`lab run {SCENARIOS} {}` ended with {status}", arguments.join(" "));
        Ok(started.elapsed().as_secs_f64())
    };
    let task = lab.progress.task("measuring runs with and without coverage", Some(2 * ROUNDS as u64));
    // The first run of each kind builds what is missing.
    seconds(&["--coverage"])?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        with.push(seconds(&["--coverage"])?);
        task.set(2 * round as u64 + 1);
        without.push(seconds(&[])?);
        task.set(2 * round as u64 + 2);
    }
    let (with, without) = (median(with), median(without));
    let figures = [
        ("with_coverage_seconds", with),
        ("without_coverage_seconds", without),
        ("with_by_without_coverage_ratio", with / without),
    ];
    let figures = figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Ok(Figures { bench: "coverage".to_owned(), figures, table: String::new() })
}
