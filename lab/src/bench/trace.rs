//! `bench trace`: records a million events in a guest, decodes and judges them, and compares with
//! trace-cmd on the same file. Also compares transferring them from the guest raw and as text.

use super::{Figures, child::measure};
use crate::{
    context::Lab,
    guest::{self, Guest},
    kernel::{self, Kernel},
    machine::{BOOT_DEADLINE, Machine, Snapshots, Subject, machine_spec},
    recording::{DrainCost, drain_cost},
    results::{Status, TRACE},
    run::Attempt,
    scenario::{Scenario, ScenarioFile},
};
use anyhow::{Result, bail};
use std::{ops::ControlFlow, path::Path, process::Command, time::Duration};
use trace::{Item, Trace};

/// The number of measurements. The fastest counts, because other processes on the host can only add
/// time.
const ROUNDS: usize = 5;

/// The scenario to record and judge, relative to the repository.
const SCENARIO: &str = "lab/src/bench/trace.yaml";

/// The minimum number of events to decode and judge.
const EVENTS: u64 = 1_000_000;

/// The workload that fills the ring buffer, which is then drained as text and raw: about 100,000
/// events.
const FILLING: [&str; 2] = ["turns", "4000"];

/// The time limit for filling and draining it.
const FILLING_DEADLINE: Duration = Duration::from_secs(300);

/// Measures the events per second that `program`, an xtask, decodes and judges and that trace-cmd
/// prints to /dev/null, both from start to exit; the peak memory of `program`; and the time for
/// reading events from a guest as text, relative to raw.
///
/// # Errors
/// Fails if the recording does not pass, has lost events, or is too short to measure.
pub fn trace(lab: &Lab, program: &Path) -> Result<Figures> {
    let kernel = kernel::build(lab, kernel::DEFAULT, None)?;
    let guest = guest::build(lab)?;
    let directory = tempfile::tempdir_in(lab.cache.directory("bench")?)?;
    let snapshots = Snapshots::new(lab)?;
    let path = lab.root.join(SCENARIO);
    let scenario = Scenario::load(&path)?;

    let task = lab.progress.task("reading events from a guest as text and raw", None);
    let cost = empty_twice(&kernel, &guest, &scenario, directory.path())?;
    drop(task);

    let task = lab.progress.task("recording a million events", None);
    let found = ScenarioFile { name: "recording".to_owned(), path };
    let recorded = Attempt {
        kernel: &kernel,
        guest: &guest,
        found: &found,
        scenario: &scenario,
        repeat: None,
        run: directory.path(),
    }
    .execute(&snapshots)?;
    if recorded.status != Status::Passed {
        bail!("the recording ended with {:?}: {}", recorded.status, recorded.reason);
    }
    let recording = directory.path().join(&recorded.directory);
    let events = count(&recording)?;
    if events < EVENTS {
        bail!("the recording has {events} events, at least {EVENTS} are required");
    }
    drop(task);

    let task = lab.progress.task("measuring judge and trace-cmd", Some(ROUNDS as u64));
    let (mut judge, mut report, mut peak) = (f64::INFINITY, f64::INFINITY, 0);
    for round in 0..ROUNDS {
        let mut command = Command::new(program);
        command.args(["lab", "judge"]).arg(&recording);
        let (seconds, bytes) = measure(&mut command, &[0])?;
        judge = judge.min(seconds);
        peak = peak.max(bytes);
        let mut command = Command::new("trace-cmd");
        command.args(["report", "-i"]).arg(recording.join(TRACE));
        report = report.min(measure(&mut command, &[0])?.0);
        task.set(round as u64 + 1);
    }
    Ok(Figures {
        bench: "trace".to_owned(),
        figures: [
            ("events", events as f64),
            ("decode_judge_events_per_second", events as f64 / judge),
            ("trace_cmd_events_per_second", events as f64 / report),
            ("decode_judge_over_trace_cmd_ratio", report / judge),
            ("judge_peak_megabytes", peak as f64 / 1e6),
            ("raw_drain_events_per_second", cost.lines as f64 / cost.raw.as_secs_f64()),
            ("text_over_raw_drain_ratio", cost.text.as_secs_f64() / cost.raw.as_secs_f64()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into(),
        table: String::new(),
    })
}

/// Drains the same ring buffer as text and raw; both must yield the same number of events.
fn empty_twice(kernel: &Kernel, guest: &Guest, scenario: &Scenario, directory: &Path) -> Result<DrainCost> {
    let directory = directory.join("drain");
    fs_err::create_dir(&directory)?;
    let mut machine = Machine::boot(&machine_spec(kernel, guest)?, &directory, BOOT_DEADLINE)?;
    let subject = Subject { scenario, kernel, guest, modules: &std::collections::BTreeMap::new() };
    let cost = drain_cost(&subject, &FILLING, &mut machine, &directory, FILLING_DEADLINE)?;
    let events = count(&directory)?;
    if events != cost.lines {
        bail!("the ring buffer held {events} events raw and {} as text", cost.lines);
    }
    Ok(cost)
}

/// Counts the events in the `trace.dat` of `directory`; lost events are an error.
fn count(directory: &Path) -> Result<u64> {
    let trace = Trace::open(&directory.join(TRACE))?;
    let mut events = 0;
    trace.for_each(|item| match item {
        Item::Event(_) => {
            events += 1;
            Ok(ControlFlow::Continue(()))
        }
        Item::Loss(loss) => bail!("events were lost, so there is nothing to measure: {loss:?}"),
    })?;
    Ok(events)
}
