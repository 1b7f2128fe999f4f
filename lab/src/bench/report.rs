//! `bench report`: a report of 200 scenarios and a million events, its size, and how long a headless
//! Chromium takes to show it.

use super::{Figures, median};
use crate::{
    cache::Cache,
    guest,
    host::browser::Browser,
    kernel::{self, Kernel},
    machine::Snapshots,
    progress::Progress,
    report::{self, Host, Qemu, REPORT, Results, Run, SCHEMA, ScenarioResult},
    run::one,
    scenario::{Found, Scenario},
    stored::TRACE,
    trace::{Item, Trace},
    verdict::Status,
};
use anyhow::{Context, Result, bail};
use std::{fs, ops::ControlFlow, path::Path, time::Instant};

/// How often each thing is measured; the median counts.
const ROUNDS: usize = 5;

/// What is recorded, below the repository.
const SCENARIO: &str = "lab/src/bench/report.yaml";

/// How many scenarios the report has, and how many events each at least.
const SCENARIOS: usize = 200;
const EVENTS: u64 = 5_000;

/// What the report may come to, in megabytes and seconds.
const MEGABYTES_MAX: f64 = 20.0;
const SHOWN_MAX: f64 = 2.0;

/// The list is there and painted: a frame was asked for once it was there, and another one came.
const PAINTED: &str = "new Promise((done) => { const look = () => \
    document.querySelectorAll('#rows .name').length === WANTED && document.querySelector('#rows button') \
    ? requestAnimationFrame(() => requestAnimationFrame(() => done(true))) : setTimeout(look, 1); look(); })";

/// The first result's details are there and its timeline is drawn.
const OPENED: &str = "new Promise((done) => { document.querySelector('#rows button').click(); const look = () => \
    document.querySelector('section.details canvas')?.width > 0 && document.querySelector('[data-role=range]').textContent \
    ? requestAnimationFrame(() => requestAnimationFrame(() => done(true))) : setTimeout(look, 1); look(); })";

/// A report of a run whose scenarios all have a real trace: how long it takes to write, how large it
/// is, and how long Chromium takes from the request to the painted list, and to the first details.
///
/// # Errors
/// A recording that does not pass, or a report that Chromium complains of.
pub fn report(cache: &Cache, root: &Path, progress: &Progress) -> Result<Figures> {
    let kernel = kernel::build(cache, root, kernel::DEFAULT, None, progress)?;
    let directory = tempfile::tempdir_in(cache.directory("bench")?)?;
    let run = directory.path();
    let task = progress.task("recording", None);
    let recorded = record(cache, root, &kernel, run, progress)?;
    let events = count(&run.join(&recorded.directory))?;
    if events < EVENTS {
        bail!("the recording has {events} events, and {EVENTS} are wanted");
    }
    let results = many(&kernel, &recorded, run)?;
    drop(task);
    let task = progress.task("writing the report", None);
    let started = Instant::now();
    report::write_html(&results, run)?;
    let written = started.elapsed().as_secs_f64();
    drop(task);
    let path = run.join(REPORT);
    let megabytes = fs::metadata(&path)?.len() as f64 / 1e6;
    let task = progress.task("looking at the report", Some(ROUNDS as u64));
    let (mut shown, mut opened) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (show, open) = look(&path)?;
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

fn record(
    cache: &Cache,
    root: &Path,
    kernel: &Kernel,
    run: &Path,
    progress: &Progress,
) -> Result<ScenarioResult> {
    let guest = guest::build(cache, root, progress)?;
    let snapshots = Snapshots::new(cache, progress)?;
    let path = root.join(SCENARIO);
    let scenario = Scenario::load(&path)?;
    let found = Found { name: "recording".to_owned(), path };
    let recorded = one(kernel, &guest, &snapshots, &found, &scenario, run)?;
    if recorded.status != Status::Passed {
        bail!("the recording came to {:?}: {}", recorded.status, recorded.reason);
    }
    Ok(recorded)
}

/// The results of a run of so many scenarios; each has files of its own.
fn many(kernel: &Kernel, recorded: &ScenarioResult, run: &Path) -> Result<Results> {
    let from = run.join(&recorded.directory);
    let scenario = |number: usize| -> Result<ScenarioResult> {
        let name = format!("area{}/scenario-{number:03}", number % 8);
        let directory = format!("{}/{name}", kernel.name);
        report::adopt(&from, &run.join(&directory)).with_context(|| format!("cannot link `{directory}`"))?;
        Ok(ScenarioResult { name, directory, ..recorded.clone() })
    };
    Ok(Results {
        schema: SCHEMA,
        run: Run {
            started: report::now(),
            seconds: 0.0,
            first_machine_micros: 0,
            restored_ahead: 0,
            complete: true,
            shuffle: None,
            shard: None,
            cases: None,
        },
        host: Host { architecture: std::env::consts::ARCH.to_owned(), cpus: 1, accelerator: String::new() },
        qemu: Qemu { version: String::new() },
        kernels: vec![kernel.into()],
        scenarios: (0..SCENARIOS).map(scenario).collect::<Result<_>>()?,
    })
}

/// Seconds from the request of a page to its painted list, and from a click to the first details.
fn look(path: &Path) -> Result<(f64, f64)> {
    let mut browser = Browser::start()?;
    browser.resize(1280, 900)?;
    let started = Instant::now();
    browser.open(&format!("file://{}", path.display()))?;
    browser.evaluate(&PAINTED.replace("WANTED", &SCENARIOS.to_string()))?;
    let shown = started.elapsed().as_secs_f64();
    let started = Instant::now();
    browser.evaluate(OPENED)?;
    let opened = started.elapsed().as_secs_f64();
    match browser.complaints().first() {
        Some(complaint) => bail!("Chromium complains of the report: {complaint}"),
        None => Ok((shown, opened)),
    }
}

fn count(directory: &Path) -> Result<u64> {
    let mut events = 0;
    Trace::open(&directory.join(TRACE))?.for_each(|item| {
        events += u64::from(matches!(item, Item::Event(_)));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(events)
}

/// A line for each figure that has a limit.
fn limits(figures: &[(&str, f64, f64)]) -> String {
    let line = |(name, value, most): &(&str, f64, f64)| {
        let kept = if value <= most { "kept" } else { "exceeded" };
        format!("{name} is to be at most {most}: {kept}\n")
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
            "a is to be at most 2: kept\nb is to be at most 2: exceeded\n"
        );
    }
}
