//! `bench trace`: a million events recorded in a guest, decoded and judged, beside trace-cmd on
//! the same file; and what getting them out of the guest costs, raw and as text.

use super::Figures;
use crate::{
    cache::Cache,
    guest::{self, Guest},
    kernel::{self, Kernel},
    machine::{BOOT_DEADLINE, Machine, Snapshots},
    progress::Progress,
    recording::{DrainCost, drain_cost},
    run::{machine_spec, one},
    scenario::{Found, Scenario},
    stored::TRACE,
    trace::{Item, Trace},
    verdict::Status,
};
use anyhow::{Context, Result, bail};
use std::{
    ops::ControlFlow,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

/// How often each thing is measured; the quickest counts, since all that another process on the host
/// can do is to add.
const ROUNDS: usize = 5;

/// What is recorded and judged, below the repository.
const SCENARIO: &str = "lab/src/bench/trace.yaml";

/// So many events at least are decoded and judged.
const EVENTS: u64 = 1_000_000;

/// What fills the ring buffer once, to be emptied raw and as text: about 100,000 events.
const FILLING: [&str; 2] = ["turns", "4000"];

/// How long filling and emptying it may take.
const FILLING_DEADLINE: Duration = Duration::from_secs(300);

/// Events that are decoded and judged in a second by `program`, an xtask, and that trace-cmd
/// prints to nowhere, both from start to exit; the most memory `program` took; and how much longer
/// a guest takes to read events as text than to hand them over raw.
///
/// # Errors
/// A recording that does not pass, has lost something, or is too short to measure.
pub fn trace(cache: &Cache, root: &Path, program: &Path, progress: &Progress) -> Result<Figures> {
    let kernel = kernel::build(cache, root, kernel::DEFAULT, None, progress)?;
    let guest = guest::build(cache, root, progress)?;
    let directory = tempfile::tempdir_in(cache.directory("bench")?)?;
    let snapshots = Snapshots::new(cache, progress)?;
    let path = root.join(SCENARIO);
    let scenario = Scenario::load(&path)?;

    let task = progress.task("getting events out of a guest in two ways", None);
    let cost = empty_twice(&kernel, &guest, &scenario, directory.path())?;
    drop(task);

    let task = progress.task("recording a million events", None);
    let found = Found { name: "recording".to_owned(), path };
    let recorded = one(&kernel, &guest, &snapshots, &found, &scenario, directory.path())?;
    if recorded.status != Status::Passed {
        bail!("the recording came to {:?}: {}", recorded.status, recorded.reason);
    }
    let recording = directory.path().join(&recorded.directory);
    let events = count(&recording)?;
    if events < EVENTS {
        bail!("the recording has {events} events, and {EVENTS} are wanted");
    }
    drop(task);

    let task = progress.task("measuring judge and trace-cmd", Some(ROUNDS as u64));
    let (mut judge, mut report, mut peak) = (f64::INFINITY, f64::INFINITY, 0);
    for round in 0..ROUNDS {
        let mut command = Command::new(program);
        command.args(["lab", "judge"]).arg(&recording);
        let (seconds, bytes) = measure(&mut command)?;
        judge = judge.min(seconds);
        peak = peak.max(bytes);
        let mut command = Command::new("trace-cmd");
        command.args(["report", "-i"]).arg(recording.join(TRACE));
        report = report.min(measure(&mut command)?.0);
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

/// The same ring buffer as text and raw; both must bring the same events.
fn empty_twice(kernel: &Kernel, guest: &Guest, scenario: &Scenario, directory: &Path) -> Result<DrainCost> {
    let directory = directory.join("drain");
    std::fs::create_dir(&directory)?;
    let mut machine = Machine::boot(&machine_spec(kernel, guest)?, &directory, BOOT_DEADLINE)?;
    let cost = drain_cost(scenario, &FILLING, kernel, &mut machine, guest, &directory, FILLING_DEADLINE)?;
    let events = count(&directory)?;
    if events != cost.lines {
        bail!("the ring buffer held {events} events raw and {} as text", cost.lines);
    }
    Ok(cost)
}

/// The events in the `trace.dat` of `directory`, none of which may be lost.
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

/// Runs a program with its output thrown away: seconds from start to exit, and the most bytes of
/// memory that it held.
fn measure(command: &mut Command) -> Result<(f64, u64)> {
    let name = command.get_program().to_string_lossy().into_owned();
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let started = Instant::now();
    let child = command.spawn().with_context(|| format!("cannot run `{name}`"))?;
    let (status, peak) = wait(child).with_context(|| format!("cannot wait for `{name}`"))?;
    let seconds = started.elapsed().as_secs_f64();
    if !status.success() {
        bail!("`{name}` failed on the recording: {status}");
    }
    Ok((seconds, peak))
}

/// Waits for a child; its status and its peak resident memory in bytes. Linux counts the peak of
/// the process that started it, up to then, too: the figure can be too large, never too small.
fn wait(child: Child) -> Result<(ExitStatus, u64)> {
    let pid = libc::pid_t::try_from(child.id())?;
    let mut status = 0;
    // SAFETY: `rusage` is plain numbers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to locals that live through the call.
    if unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) } != pid {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok((ExitStatus::from_raw(status), u64::try_from(usage.ru_maxrss)? * 1024))
}
