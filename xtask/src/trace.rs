//! `cargo xtask lab trace`

use crate::{Usage, exit};
use anyhow::Result;
use clap::{Args, Subcommand};
use fs_err::File;
use lab::{
    host::beneath::trace_beneath, report::side_by_side, results::TRACE, verdict::Filter, words::printable,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Map;
use std::{
    borrow::Cow,
    io::{BufWriter, ErrorKind, Write, stdout},
    ops::ControlFlow,
    path::{Path, PathBuf},
};
use trace::{
    Event, Item, Loss, Trace, Value,
    diff::{Comparison, compare, is_agents},
    perfetto,
};

/// Print a trace.dat of the lab or of trace-cmd, or compare two
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true,
    after_help = "Examples:\n  \
    cargo xtask lab trace results/latest/6.12/probes/eventfd-write\n  \
    cargo xtask lab trace trace.dat --event efd_ret --where 'ret != 8'\n  \
    cargo xtask lab trace trace.dat --event sched:sched_switch --json\n  \
    cargo xtask lab trace results/latest/6.12/probes/eventfd-write --perfetto trace.pftrace\n  \
    cargo xtask lab trace diff results/latest/6.12/probes/remove@1 results/latest/6.12/probes/remove@4"
)]
pub(crate) struct Print {
    /// A trace.dat of version 6 or 7, compressed or not, or its directory
    #[arg(required = true)]
    file: Option<PathBuf>,
    #[command(flatten)]
    wanted: EventArgs,
    /// Print one JSON object per line: {time, cpu, pid, comm, group, event, fields}, or
    /// {lost, cpu, after, before}
    #[arg(long)]
    json: bool,
    /// Write the events to this file, in the format of ui.perfetto.dev, instead of printing them
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    perfetto: Option<PathBuf>,
    #[command(subcommand)]
    form: Option<Form>,
}

#[derive(Subcommand)]
enum Form {
    Diff(Diff),
}

/// Show where two traces diverge
///
/// Compares the events one by one in order of time, and ignores what differs between any two runs:
/// timestamps, CPUs, flags, preemption counts, and the events of the lab's agent. PIDs and heap addresses
/// are replaced by numbers in order of first appearance. Exits with 0 if the sequences are identical,
/// otherwise with 1.
#[derive(Args)]
#[command(after_help = "Example:\n  \
    cargo xtask lab trace diff results/latest/6.12/probes/remove@1 results/latest/6.12/probes/remove@4")]
struct Diff {
    /// A trace.dat, or its directory
    a: PathBuf,
    /// The trace to compare it with
    b: PathBuf,
    /// Also compare events of pid 1, the lab's agent, whose timing the lab determines
    #[arg(long)]
    agent: bool,
    #[command(flatten)]
    wanted: EventArgs,
}

/// The selection of events.
#[derive(Args)]
struct EventArgs {
    /// Only this event, NAME or GROUP:NAME (repeatable)
    #[arg(long = "event", value_name = "NAME")]
    events: Vec<String>,
    /// Only events that satisfy this CEL condition
    #[arg(long = "where", value_name = "CONDITION")]
    condition: Option<String>,
}

impl EventArgs {
    fn filter(&self) -> Result<Filter> {
        Ok(Filter::new(&self.events, self.condition.as_deref()).map_err(Usage)?)
    }
}

/// Fails if the condition could not be evaluated on any event, so that no event was selected.
fn evaluated(seen: bool, filters: &[&Filter]) -> Result<()> {
    match filters.iter().find_map(|filter| filter.error()) {
        Some(error) if !seen => {
            Err(Usage(format!("cannot evaluate the condition on any event: {error}")).into())
        }
        _ => Ok(()),
    }
}

fn open(path: &Path) -> Result<Trace> {
    if path.is_dir() { trace_beneath(path, TRACE) } else { Trace::open(path) }
}

impl Diff {
    fn run(&self) -> Result<u8> {
        let (a, b) = (open(&self.a)?, open(&self.b)?);
        let (mut filter_a, mut filter_b) = (self.wanted.filter()?, self.wanted.filter()?);
        let wants: [&mut Filter; 2] = [&mut filter_a, &mut filter_b];
        let agent = self.agent;
        let wants =
            wants.map(|filter| move |event: &Event<'_>| (agent || !is_agents(event)) && filter.wants(event));
        let comparison = compare([&a, &b], wants)?;
        evaluated(comparison != Comparison::Same(0), &[&filter_a, &filter_b])?;
        println!("A: {}\nB: {}", self.a.display(), self.b.display());
        if !self.agent {
            println!("without the events of pid 1, the lab's agent (--agent includes them)");
        }
        print!("{}", side_by_side(&comparison));
        Ok(if matches!(comparison, Comparison::Same(_)) { exit::SUCCESS } else { exit::FAILED })
    }
}

impl Print {
    pub(crate) fn run(self) -> Result<u8> {
        if let Some(Form::Diff(diff)) = &self.form {
            return diff.run();
        }
        // clap requires a file unless there is a subcommand.
        let trace = open(&self.file.unwrap_or_default())?;
        let mut filter = self.wanted.filter()?;
        if let Some(path) = &self.perfetto {
            return perfetto(&trace, filter, path);
        }
        let mut out = BufWriter::new(stdout().lock());
        let mut shown = 0_u64;
        let printed = trace.for_each(|item| {
            match item {
                Item::Event(event) if !filter.wants(&event) => {}
                Item::Event(event) => {
                    shown += 1;
                    if self.json {
                        writeln!(out, "{}", serde_json::to_string(&line_of(&event))?)?;
                    } else {
                        writeln!(out, "{}", printable(trace.display(&event)))?;
                    }
                }
                Item::Loss(loss) if self.json => {
                    writeln!(out, "{}", serde_json::to_string(&line_of_loss(&loss))?)?;
                }
                Item::Loss(loss) => writeln!(out, "CPU:{} [{} LOST]", loss.cpu, count(&loss))?,
            }
            Ok(ControlFlow::Continue(()))
        });
        let printed = printed.and_then(|()| Ok(out.flush()?));
        match printed {
            // The reader, such as `| head`, has closed the pipe.
            Err(error) if error.root_cause().downcast_ref::<std::io::Error>().is_some_and(closed) => {}
            other => other?,
        }
        evaluated(shown > 0, &[&filter])?;
        Ok(exit::SUCCESS)
    }
}

/// Writes a trace in Perfetto's format.
fn perfetto(trace: &Trace, mut filter: Filter, path: &Path) -> Result<u8> {
    let mut out = BufWriter::new(File::create(path)?);
    let written = perfetto::write(trace, |event| filter.wants(event), &mut out)?;
    out.flush()?;
    evaluated(written > 0, &[&filter])?;
    println!("wrote {written} events to {}; open it in ui.perfetto.dev", path.display());
    Ok(exit::SUCCESS)
}

fn closed(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::BrokenPipe
}

fn count(loss: &Loss) -> String {
    loss.lost.map_or("UNKNOWN NUMBER OF EVENTS".into(), |lost| format!("{lost} EVENTS"))
}

/// A line that `--json` prints.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Line<'a> {
    Event(EventLine<'a>),
    Loss(LossLine),
}

/// An event.
#[derive(Serialize, JsonSchema)]
pub(crate) struct EventLine<'a> {
    /// Nanoseconds, or units of the trace clock if that does not count time.
    time: u64,
    cpu: u32,
    pid: i32,
    comm: Cow<'a, str>,
    group: &'a str,
    event: &'a str,
    /// Bytes are hexadecimal digits.
    fields: Map<String, serde_json::Value>,
}

/// Events that are not in the trace.
#[derive(Serialize, JsonSchema)]
pub(crate) struct LossLine {
    /// How many; null if that is unknown.
    lost: Option<u64>,
    cpu: u32,
    /// The time of the last event before them.
    after: Option<u64>,
    /// The time of the first event after them.
    before: Option<u64>,
}

fn line_of<'a>(event: &'a Event<'_>) -> Line<'a> {
    Line::Event(EventLine {
        time: event.time,
        cpu: event.cpu,
        pid: event.pid,
        comm: event.comm(),
        group: event.group(),
        event: event.name(),
        fields: event.fields().map(|(name, value)| (name.to_owned(), json_of_value(value))).collect(),
    })
}

fn line_of_loss(loss: &Loss) -> Line<'static> {
    Line::Loss(LossLine { lost: loss.lost, cpu: loss.cpu, after: loss.after, before: loss.before })
}

fn json_of_value(value: Value<'_>) -> serde_json::Value {
    match value {
        Value::Signed(number) => number.into(),
        Value::Unsigned(number) => number.into(),
        Value::Text(text) => text.into_owned().into(),
        Value::Bytes(bytes) => lab::words::hex(&bytes).into(),
        Value::List(list) => list.into_iter().map(json_of_value).collect::<Vec<_>>().into(),
    }
}
