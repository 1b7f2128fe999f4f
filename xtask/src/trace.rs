//! `cargo xtask lab trace`

use crate::{Usage, exit};
use anyhow::Result;
use clap::Args;
use lab::{
    stored::TRACE,
    trace::{Event, Item, Loss, Trace, Value},
    verdict::Filter,
};
use serde_json::{Map, json};
use std::{
    io::{BufWriter, ErrorKind, Write, stdout},
    ops::ControlFlow,
    path::PathBuf,
};

/// Print a trace.dat, the lab's or one of trace-cmd
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab trace results/latest/6.12/probes/eventfd-write\n  \
    cargo xtask lab trace trace.dat --event efd_ret --where 'ret != 8'\n  \
    cargo xtask lab trace trace.dat --event sched:sched_switch --json")]
pub(crate) struct Print {
    /// A trace.dat of version 6 or 7, compressed or not, or the directory it is in
    file: PathBuf,
    /// Only this event, NAME or GROUP:NAME; may be given several times
    #[arg(long = "event", value_name = "NAME")]
    events: Vec<String>,
    /// Only events of which this CEL condition holds
    #[arg(long = "where", value_name = "CONDITION")]
    condition: Option<String>,
    /// One JSON object a line: {time, cpu, pid, comm, group, event, fields}, or {lost, cpu, after, before}
    #[arg(long)]
    json: bool,
}

impl Print {
    pub(crate) fn run(self) -> Result<u8> {
        let path = if self.file.is_dir() { self.file.join(TRACE) } else { self.file };
        let trace = Trace::open(&path)?;
        let mut filter = Filter::new(&self.events, self.condition.as_deref()).map_err(Usage)?;
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
        if let (0, Some(error)) = (shown, filter.error()) {
            return Err(Usage(format!("the condition could be evaluated on no event: {error}")).into());
        }
        Ok(exit::SUCCESS)
    }
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
