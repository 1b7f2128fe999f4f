//! What it costs to get a trace out of the guest: raw pages, as every recording does it, against
//! the text of `trace`.

use super::{Recorder, unexpected};
use crate::{
    guest::Guest,
    kernel::Kernel,
    machine::{Death, Machine},
    scenario::Scenario,
};
use anyhow::{Context, anyhow};
use protocol::{ChildState, Reply, Request};
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// The kernel's own text of the ring buffer; reading it takes nothing out of it.
const TEXT: &str = "/sys/kernel/tracing/trace";

/// How long one wait for a program in the guest is.
const WAIT_MILLIS: u32 = 1000;

/// The same events, got out of the same ring buffer in both ways.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DrainCost {
    /// Lines of text that were events.
    pub(crate) lines: u64,
    /// For a program in the guest to read the text and throw it away.
    pub(crate) text: Duration,
    /// For the raw pages to arrive in the lab and be stored.
    pub(crate) raw: Duration,
}

/// Lets `workload` fill the ring buffer of a machine that has just booted, with nothing drained
/// meanwhile, and empties it in both ways. `directory` gets the raw one's `trace.dat`.
pub(crate) fn drain_cost(
    scenario: &Scenario,
    workload: &[&str],
    kernel: &Kernel,
    machine: &mut Machine,
    guest: &Guest,
    directory: &Path,
    within: Duration,
) -> Result<DrainCost, Death> {
    let mut recorder = Recorder::new(kernel, machine, guest, directory, within);
    if let Some(reason) = recorder.arm(scenario)? {
        return Err(Death::Lab(anyhow!("cannot arm the trace: {reason}")));
    }
    recorder.start_trace(&scenario.trace)?;
    recorder.finish(workload)?;
    match recorder.call(&Request::StopTrace { instance: String::new() })? {
        Reply::Done => {}
        other => return Err(unexpected("tracing to stop", &other)),
    }
    let started = Instant::now();
    let counted = recorder.finish(&["lines", TEXT])?;
    let text = started.elapsed();
    let lines = counted.trim().parse().with_context(|| format!("`{counted}` is no number of lines"));
    let started = Instant::now();
    recorder.drain(true)?;
    let raw = started.elapsed();
    recorder.stop_trace()?;
    Ok(DrainCost { lines: lines.map_err(Death::Lab)?, text, raw })
}

impl Recorder<'_> {
    /// Runs a workload to its end and leaves the ring buffer alone; gives back its stdout.
    fn finish(&mut self, command: &[&str]) -> Result<String, Death> {
        let (program, arguments) = command.split_first().unwrap_or((&"", &[]));
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let failed = |reason: String| Death::Lab(anyhow!("the workload `{}`: {reason}", command.join(" ")));
        let child = self.start(program, &arguments, Vec::new(), &[])?.map_err(failed)?;
        loop {
            match self.call(&Request::Wait { child, milliseconds: WAIT_MILLIS })? {
                Reply::Child(ChildState::Running) => {}
                Reply::Child(ChildState::Exited(0, output)) => {
                    return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
                }
                Reply::Child(ended) => return Err(failed(format!("it ended badly: {ended:?}"))),
                other => return Err(unexpected("a child's state", &other)),
            }
        }
    }
}
