//! The cost of reading a trace out of the guest: as raw pages, as in every recording, and as the text
//! of `trace`.

use super::{
    arm::arm,
    files::Files,
    link::{Link, unexpected},
    processes::{Launch, start},
    symbols::Symbols,
    tape::{Drain, Traced},
};
use crate::machine::{Death, Machine, Subject};
use anyhow::{Context, anyhow};
use protocol::{ChildState, Reply, Request};
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// The ring buffer as text. Reading it leaves the events in the buffer.
const TEXT: &str = "/sys/kernel/tracing/trace";

/// The length of one wait for a program in the guest, in milliseconds.
const WAIT_MILLIS: u32 = 1000;

/// The cost of reading the same events out of the same ring buffer in both ways.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DrainCost {
    /// The number of events, as lines of text.
    pub(crate) lines: u64,
    /// The time in which a program in the guest reads the text and discards it.
    pub(crate) text: Duration,
    /// The time in which the lab receives and stores the raw pages.
    pub(crate) raw: Duration,
}

/// Lets `workload` fill the ring buffer of a machine that has just booted, without draining it, and then
/// reads it in both ways. Writes `trace.dat` to `directory`.
pub(crate) fn drain_cost(
    subject: &Subject<'_>,
    workload: &[&str],
    machine: &mut Machine,
    directory: &Path,
    within: Duration,
) -> Result<DrainCost, Death> {
    let Subject { scenario, kernel, guest, .. } = *subject;
    let mut traced = Traced::new(Link::new(machine, within));
    let mut files = Files::new(guest);
    if let Some(reason) = arm(&mut traced.link, &mut files, kernel, scenario)? {
        return Err(Death::Lab(anyhow!("cannot arm the trace: {reason}")));
    }
    traced.start(&scenario.trace, directory)?;
    finish(&mut traced.link, &mut files, workload)?;
    traced.pause()?;
    let started = Instant::now();
    let counted = finish(&mut traced.link, &mut files, &["lines", TEXT])?;
    let text = started.elapsed();
    let lines = counted.trim().parse().with_context(|| format!("`{counted}` is not a number of lines"));
    let started = Instant::now();
    traced.drain(Drain::All)?;
    let raw = started.elapsed();
    traced.stop(&Symbols::new(kernel))?;
    Ok(DrainCost { lines: lines.map_err(Death::Lab)?, text, raw })
}

/// Runs a workload to its end, without draining the trace. Returns its stdout.
fn finish(link: &mut Link<'_>, files: &mut Files<'_>, command: &[&str]) -> Result<String, Death> {
    let (program, arguments) = command.split_first().unwrap_or((&"", &[]));
    let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
    let failed = |reason: String| Death::Lab(anyhow!("the workload `{}`: {reason}", command.join(" ")));
    let launch = Launch { program, arguments: &arguments, env: Vec::new(), stdin: &[] };
    let child = start(link, files, launch)?.map_err(failed)?;
    loop {
        match link.call(&Request::Wait { child, milliseconds: WAIT_MILLIS })? {
            Reply::Child(ChildState::Running) => {}
            Reply::Child(ChildState::Exited(0, output)) => {
                return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
            }
            Reply::Child(ended) => return Err(failed(format!("it ended badly: {ended:?}"))),
            other => return Err(unexpected("a child's state", &other)),
        }
    }
}
