//! `bench report`: measures the size of a report of 200 scenarios and a million events, and the
//! time that a browser takes to show it.

use super::{Figures, median};
use crate::{
    context::Lab,
    guest,
    kernel::{self, Kernel},
    machine::Snapshots,
    report::{self, REPORT},
    results::{self, Host, Qemu, Results, Run, SCHEMA, ScenarioResult, Status, TRACE},
    run::Attempt,
    scenario::{Scenario, ScenarioFile},
};
use anyhow::{Result, bail};
use fs_err as fs;
use std::{ops::ControlFlow, path::Path, time::Instant};
use trace::{Item, Trace};

/// The number of measurements; the median counts.
const ROUNDS: usize = 5;

/// The scenario to record, relative to the repository.
const SCENARIO: &str = "lab/src/bench/report.yaml";

/// The number of scenarios in the report, and the minimum number of events of each.
const SCENARIOS: usize = 200;
const EVENTS: u64 = 5_000;

/// The limits for the report, in megabytes and seconds.
const MEGABYTES_MAX: f64 = 20.0;
const SHOWN_MAX: f64 = 2.0;

/// Opens a report, with its number of scenarios, in a browser. Returns the seconds from the request to the
/// painted list, and from a click to the first details.
pub type Look<'a> = &'a dyn Fn(&Path, usize) -> Result<(f64, f64)>;

/// Writes a report of a run whose scenarios all have a real trace. Measures the time to write it,
/// its size, and the times of `look`, the median of several rounds.
///
/// # Errors
/// Fails if the recording does not pass or Chromium reports an error in the report.
pub fn report(lab: &Lab, look: Look<'_>) -> Result<Figures> {
    let kernel = kernel::build(lab, kernel::DEFAULT, None)?;
    let directory = tempfile::tempdir_in(lab.cache.directory("bench")?)?;
    let run = directory.path();
    let task = lab.progress.task("recording", None);
    let recorded = record(lab, &kernel, run)?;
    let events = count(&run.join(&recorded.directory))?;
    if events < EVENTS {
        bail!("the recording has {events} events, at least {EVENTS} are required");
    }
    let results = many(&kernel, &recorded, run)?;
    drop(task);
    let task = lab.progress.task("writing the report", None);
    let started = Instant::now();
    report::write_html(&results, run, run, None)?;
    let written = started.elapsed().as_secs_f64();
    drop(task);
    let path = run.join(REPORT);
    let megabytes = fs::metadata(&path)?.len() as f64 / 1e6;
    let task = lab.progress.task("measuring the report", Some(ROUNDS as u64));
    let (mut shown, mut opened) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (show, open) = look(&path, SCENARIOS)?;
        shown.push(show);
        opened.push(open);
        task.set(round as u64 + 1);
    }
    let (shown, opened) = (median(shown), median(opened));
    Ok(Figures {
        bench: "report".to_owned(),
        figures: [
            ("scenarios", SCENARIOS as f64),
            ("events", (events * SCENARIOS as u64) as f64),
            ("report_megabytes", megabytes),
            ("write_seconds", written),
            ("shown_seconds", shown),
            ("first_details_seconds", opened),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into(),
        table: limits(&[("report_megabytes", megabytes, MEGABYTES_MAX), ("shown_seconds", shown, SHOWN_MAX)]),
    })
}

fn record(lab: &Lab, kernel: &Kernel, run: &Path) -> Result<ScenarioResult> {
    let guest = guest::build(lab)?;
    let snapshots = Snapshots::new(lab)?;
    let path = lab.root.join(SCENARIO);
    let scenario = Scenario::load(&path)?;
    let found = ScenarioFile { name: "recording".to_owned(), path };
    let recorded = Attempt { kernel, guest: &guest, found: &found, scenario: &scenario, repeat: None, run }
        .execute(&snapshots)?;
    if recorded.status != Status::Passed {
        bail!("the recording ended with {:?}: {}", recorded.status, recorded.reason);
    }
    Ok(recorded)
}

/// Returns the results of a run of [`SCENARIOS`] scenarios, each with its own files.
fn many(kernel: &Kernel, recorded: &ScenarioResult, run: &Path) -> Result<Results> {
    let from = run.join(&recorded.directory);
    let scenario = |number: usize| -> Result<ScenarioResult> {
        let name = format!("area{}/scenario-{number:03}", number % 8);
        let directory = format!("{}/{name}", kernel.name);
        results::adopt(&from, &run.join(&directory))?;
        Ok(ScenarioResult { name, directory, ..recorded.clone() })
    };
    Ok(Results {
        schema: SCHEMA,
        run: Run {
            started: results::now(),
            seconds: 0.0,
            first_machine_micros: 0,
            restored_ahead: 0,
            complete: true,
            shuffle: None,
            shard: None,
            cases: None,
            options: None,
        },
        host: Host { architecture: std::env::consts::ARCH.to_owned(), cpus: 1, accelerator: String::new() },
        qemu: Qemu { version: String::new() },
        kernels: vec![kernel.into()],
        scenarios: (0..SCENARIOS).map(scenario).collect::<Result<_>>()?,
    })
}

fn count(directory: &Path) -> Result<u64> {
    let mut events = 0;
    Trace::open(&directory.join(TRACE))?.for_each(|item| {
        events += u64::from(matches!(item, Item::Event(_)));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(events)
}

/// Returns a line for each figure that has a limit.
fn limits(figures: &[(&str, f64, f64)]) -> String {
    let line = |(name, value, most): &(&str, f64, f64)| {
        let kept = if value <= most { "kept" } else { "exceeded" };
        format!("{name} must be at most {most}: {kept}\n")
    };
    figures.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_kept_or_exceeded() {
        assert_eq!(
            limits(&[("a", 2.0, 2.0), ("b", 2.1, 2.0)]),
            "a must be at most 2: kept\nb must be at most 2: exceeded\n"
        );
    }
}
