//! `cargo xtask lab trace`

use crate::{Usage, exit};
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use lab::{
    report::side_by_side,
    stored::TRACE,
    trace::{
        Event, Item, Loss, Trace, Value,
        diff::{Comparison, compare, is_agents},
        perfetto,
    },
    verdict::Filter,
};
use serde_json::{Map, json};
use std::{
    fs::File,
    io::{BufWriter, ErrorKind, Write, stdout},
    ops::ControlFlow,
    path::{Path, PathBuf},
};

/// Print a trace.dat, the lab's or one of trace-cmd, or compare two
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
    /// A trace.dat of version 6 or 7, compressed or not, or the directory it is in
    #[arg(required = true)]
    file: Option<PathBuf>,
    #[command(flatten)]
    wanted: Wanted,
    /// One JSON object a line: {time, cpu, pid, comm, group, event, fields}, or {lost, cpu, after, before}
    #[arg(long)]
    json: bool,
    /// Write the events to this file, in the form that ui.perfetto.dev opens, and print none
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    perfetto: Option<PathBuf>,
    #[command(subcommand)]
    form: Option<Form>,
}

#[derive(Subcommand)]
enum Form {
    Diff(Diff),
}

/// Show where the sequences of events of two traces part
///
/// Events are compared one by one in the order of time, without what differs between any two runs:
/// times, CPUs, flags, preemption counts, and the events of the lab's agent. Process ids and heap addresses are numbered by their first
/// appearance. Exits with 0 if the sequences are the same and with 1 if they are not.
#[derive(Args)]
#[command(after_help = "Example:\n  \
    cargo xtask lab trace diff results/latest/6.12/probes/remove@1 results/latest/6.12/probes/remove@4")]
struct Diff {
    /// A trace.dat, or the directory it is in
    a: PathBuf,
    /// Another one
    b: PathBuf,
    /// Compare events of pid 1, too: that is the lab's agent, which does what it does when it is told
    #[arg(long)]
    agent: bool,
    #[command(flatten)]
    wanted: Wanted,
}

/// Which events are looked at.
#[derive(Args)]
struct Wanted {
    /// Only this event, NAME or GROUP:NAME; may be given several times
    #[arg(long = "event", value_name = "NAME")]
    events: Vec<String>,
    /// Only events of which this CEL condition holds
    #[arg(long = "where", value_name = "CONDITION")]
    condition: Option<String>,
}

impl Wanted {
    fn filter(&self) -> Result<Filter> {
        Ok(Filter::new(&self.events, self.condition.as_deref()).map_err(Usage)?)
    }
}

/// An error if the condition could be evaluated on none of the events, so that none was wanted.
fn evaluated(seen: bool, filters: &[&Filter]) -> Result<()> {
    match filters.iter().find_map(|filter| filter.error()) {
        Some(error) if !seen => {
            Err(Usage(format!("the condition could be evaluated on no event: {error}")).into())
        }
        _ => Ok(()),
    }
}

fn open(path: &Path) -> Result<Trace> {
    if path.is_dir() { Trace::open(&path.join(TRACE)) } else { Trace::open(path) }
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
            println!("without the events of pid 1, the lab's agent (--agent compares them, too)");
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
        // The parser has seen to it that there is a file where there is no other form.
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
                        writeln!(out, "{}", json_of(&event))?;
                    } else {
                        writeln!(out, "{}", trace.display(&event))?;
                    }
                }
                Item::Loss(loss) if self.json => writeln!(out, "{}", json_of_loss(&loss))?,
                Item::Loss(loss) => writeln!(out, "CPU:{} [{} LOST]", loss.cpu, count(&loss))?,
            }
            Ok(ControlFlow::Continue(()))
        });
        let printed = printed.and_then(|()| Ok(out.flush()?));
        match printed {
            // `| head` has seen enough.
            Err(error) if error.root_cause().downcast_ref::<std::io::Error>().is_some_and(closed) => {}
            other => other?,
        }
        evaluated(shown > 0, &[&filter])?;
        Ok(exit::SUCCESS)
    }
}

/// Writes a trace in Perfetto's form.
fn perfetto(trace: &Trace, mut filter: Filter, path: &Path) -> Result<u8> {
    let make = || format!("cannot write `{}`", path.display());
    let mut out = BufWriter::new(File::create(path).with_context(make)?);
    let written = perfetto::write(trace, |event| filter.wants(event), &mut out)?;
    out.flush().with_context(make)?;
    evaluated(written > 0, &[&filter])?;
    println!("{written} events in {}; ui.perfetto.dev opens it", path.display());
    Ok(exit::SUCCESS)
}

fn closed(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::BrokenPipe
}

fn count(loss: &Loss) -> String {
    loss.lost.map_or("UNKNOWN NUMBER OF EVENTS".into(), |lost| format!("{lost} EVENTS"))
}

fn json_of(event: &Event<'_>) -> serde_json::Value {
    let fields: Map<_, _> =
        event.fields().map(|(name, value)| (name.to_owned(), json_of_value(value))).collect();
    json!({
        "time": event.time,
        "cpu": event.cpu,
        "pid": event.pid,
        "comm": event.comm(),
        "group": event.group(),
        "event": event.name(),
        "fields": fields,
    })
}

fn json_of_loss(loss: &Loss) -> serde_json::Value {
    json!({ "lost": loss.lost, "cpu": loss.cpu, "after": loss.after, "before": loss.before })
}

fn json_of_value(value: Value<'_>) -> serde_json::Value {
    match value {
        Value::Signed(number) => number.into(),
        Value::Unsigned(number) => number.into(),
        Value::Text(text) => text.into_owned().into(),
        Value::Bytes(bytes) => lab::cache::hex(&bytes).into(),
        Value::List(list) => list.into_iter().map(json_of_value).collect::<Vec<_>>().into(),
    }
}
