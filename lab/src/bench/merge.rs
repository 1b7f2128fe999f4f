//! `bench merge`: merges a report of 10,000 results that a fleet ran in 40 parts, with the files of real results.

use super::{Figures, child::measure};
use crate::{
    context::Lab,
    host::beneath::directory_beneath,
    results::{self, Results, Run, ScenarioResult, stored_results},
};
use anyhow::{Result, ensure};
use fs_err as fs;
use std::{path::Path, process::Command};

/// The number of kernels, of parts of each, and of results in each part.
const KERNELS: usize = 10;
const PARTS: usize = 4;
const RESULTS: usize = 250;

/// Merges parts made of the results stored in `stored` by `program`, an xtask. Their files are hard links to those
/// of `stored` if it is on the file system of the cache.
pub fn merge(lab: &Lab, program: &Path, stored: &Path) -> Result<Figures> {
    let from = stored_results(stored)?;
    ensure!(!from.scenarios.is_empty(), "`{}` has no results", stored.display());
    let directory = tempfile::tempdir_in(lab.cache.directory("bench")?)?;
    let parts = directory.path().join("parts");
    let task = lab.progress.task("making parts", Some((KERNELS * PARTS) as u64));
    for number in 0..KERNELS * PARTS {
        let run = parts.join(number.to_string()).join("run");
        fs::create_dir_all(&run)?;
        results::write_json(&part(&from, stored, number, &run)?, &run)?;
        task.set(number as u64 + 1);
    }
    drop(task);
    let _task = lab.progress.task("merging", None);
    let report = directory.path().join("report");
    let mut command = Command::new(program);
    command.args(["lab", "merge"]).arg(&parts).arg("--into").arg(&report).env_remove("GITHUB_STEP_SUMMARY");
    // Scenarios may have failed, or the lab.
    let (seconds, bytes) = measure(&mut command, &[0, 1, 3])?;
    let merged = stored_results(&report)?;
    let count = KERNELS * PARTS * RESULTS;
    ensure!(merged.run.complete && merged.scenarios.len() == count, "the report is not complete");
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let size = |name: &str| Ok::<_, anyhow::Error>(megabytes(fs::metadata(report.join(name))?.len()));
    let figures = [
        ("results", count as f64),
        ("parts", (KERNELS * PARTS) as f64),
        ("merge_seconds", seconds),
        ("merge_peak_megabytes", megabytes(bytes)),
        ("results_json_megabytes", size("results.json")?),
        ("report_html_megabytes", size("report.html")?),
    ];
    let figures = figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Ok(Figures { bench: "merge".to_owned(), figures, table: String::new() })
}

/// Returns a part whose results are those of `from` by turns, and adds their files to `run`.
fn part(from: &Results, stored: &Path, number: usize, run: &Path) -> Result<Results> {
    let (kernel, shard) = (format!("kernel-{}", number / PARTS), number % PARTS);
    let result = |index: usize| -> Result<ScenarioResult> {
        let recorded = &from.scenarios[(number * RESULTS + index) % from.scenarios.len()];
        let name = format!("area-{}/scenario-{:04}", index % 8, shard * RESULTS + index);
        let mut directory = String::new();
        if let (false, Ok(files)) =
            (recorded.directory.is_empty(), directory_beneath(stored, &recorded.directory))
        {
            directory = format!("{kernel}/{name}");
            results::adopt(&files, &run.join(&directory))?;
        }
        Ok(ScenarioResult { name, kernel: kernel.clone(), repeat: None, directory, ..recorded.clone() })
    };
    let mut kernels = from.kernels.clone();
    kernels.truncate(1);
    kernels.iter_mut().for_each(|info| info.name.clone_from(&kernel));
    Ok(Results {
        schema: from.schema,
        run: Run {
            complete: true,
            shard: Some(format!("{}/{PARTS} of {:08x}", shard + 1, number / PARTS)),
            cases: Some(PARTS * RESULTS),
            ..from.run.clone()
        },
        host: from.host.clone(),
        qemu: from.qemu.clone(),
        kernels,
        scenarios: (0..RESULTS).map(result).collect::<Result<_>>()?,
    })
}
