//! Converts a trace to Perfetto's format, which ui.perfetto.dev and trace_processor open.
//!
//! The scheduler's events become Perfetto's own, from which it builds its tracks of CPUs and thread
//! states; every other event keeps its name and its fields. Times are those of the trace; Perfetto
//! takes them for nanoseconds since boot.

mod message;

use super::{Event, Item, Trace, Value};
use anyhow::{Context, Result};
use message::{
    Data, Field, FieldValue, FtraceEvent, FtraceEventBundle, Generic, Kind, Print, ProcessTree, SchedSwitch,
    SystemInfo, Thread, TracePacket, Utsname, Wakeup,
};
use prost::Message;
use std::{collections::BTreeMap, io::Write, ops::ControlFlow};

/// The maximum number of events of one packet.
const BUNDLE: usize = 512;

/// The sequence ID of the packets' writer; there is only one.
const SEQUENCE: u32 = 1;

/// Writes the events for which `wanted` holds and returns their number.
///
/// # Errors
/// Fails if the trace is corrupt or `out` cannot be written to.
pub fn write(trace: &Trace, mut wanted: impl FnMut(&Event<'_>) -> bool, out: &mut impl Write) -> Result<u64> {
    packet(out, Data::SystemInfo(system(trace)))?;
    let mut bundles: BTreeMap<u32, FtraceEventBundle> = BTreeMap::new();
    let mut tasks: BTreeMap<i32, String> = BTreeMap::new();
    let mut events = 0;
    trace.for_each(|item| {
        match item {
            Item::Event(event) if !wanted(&event) => {}
            Item::Event(event) => {
                events += 1;
                tasks.entry(event.pid).or_insert_with(|| event.comm().into_owned());
                let bundle = bundles.entry(event.cpu).or_default();
                bundle.event.push(converted(&event));
                if bundle.event.len() >= BUNDLE {
                    flush(out, event.cpu, bundle)?;
                }
            }
            Item::Loss(loss) => {
                let bundle = bundles.entry(loss.cpu).or_default();
                flush(out, loss.cpu, bundle)?;
                bundle.lost_events = Some(true);
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    bundles.iter_mut().try_for_each(|(cpu, bundle)| flush(out, *cpu, bundle))?;
    let thread = |(pid, name)| Thread { tid: Some(pid), name: Some(name), tgid: Some(pid) };
    let threads = tasks.into_iter().filter(|(pid, _)| *pid > 0).map(thread).collect();
    packet(out, Data::ProcessTree(ProcessTree { threads }))?;
    Ok(events)
}

/// Writes a CPU's events, if there are any, and empties the bundle.
fn flush(out: &mut impl Write, cpu: u32, bundle: &mut FtraceEventBundle) -> Result<()> {
    if bundle.event.is_empty() {
        return Ok(());
    }
    let full = FtraceEventBundle { cpu: Some(cpu), ..std::mem::take(bundle) };
    packet(out, Data::FtraceEvents(full))
}

/// Writes a packet. A trace is a sequence of packets.
fn packet(out: &mut impl Write, data: Data) -> Result<()> {
    let packet = TracePacket { trusted_packet_sequence_id: Some(SEQUENCE), data: Some(data) };
    let bytes = message::Trace { packet: vec![packet] }.encode_to_vec();
    out.write_all(&bytes).context("cannot write the trace")
}

/// `Linux ftrace-lab 6.12.107 aarch64`.
fn system(trace: &Trace) -> SystemInfo {
    let words: Vec<&str> = trace.metadata().uname().split_whitespace().collect();
    let word = |at: usize| words.get(at).map(|word| (*word).to_owned());
    let (sysname, release, machine) = (word(0), word(2), words.last().map(|word| (*word).to_owned()));
    SystemInfo { utsname: Some(Utsname { sysname, release, machine }) }
}

fn converted(event: &Event<'_>) -> FtraceEvent {
    let wakeup = || Wakeup {
        comm: text(event, "comm"),
        pid: number(event, "pid"),
        prio: number(event, "prio"),
        target_cpu: number(event, "target_cpu"),
    };
    let kind = match (event.group(), event.name()) {
        ("sched", "sched_switch") => Kind::SchedSwitch(SchedSwitch {
            prev_comm: text(event, "prev_comm"),
            prev_pid: number(event, "prev_pid"),
            prev_prio: number(event, "prev_prio"),
            prev_state: event.field("prev_state").and_then(|state| state.as_u64()).map(|state| state as i64),
            next_comm: text(event, "next_comm"),
            next_pid: number(event, "next_pid"),
            next_prio: number(event, "next_prio"),
        }),
        ("sched", "sched_wakeup") => Kind::SchedWakeup(wakeup()),
        ("sched", "sched_waking") => Kind::SchedWaking(wakeup()),
        ("sched", "sched_wakeup_new") => Kind::SchedWakeupNew(wakeup()),
        ("ftrace", "print" | "bprint" | "bputs") => Kind::Print(Print {
            ip: event.field("ip").and_then(|ip| ip.as_u64()),
            buf: text(event, "message"),
        }),
        _ => Kind::Generic(generic(event)),
    };
    let pid = u32::try_from(event.pid).ok();
    FtraceEvent { timestamp: Some(event.time), pid, kind: Some(kind) }
}

fn text(event: &Event<'_>, field: &str) -> Option<String> {
    Some(event.field(field)?.as_text()?.to_owned())
}

/// Returns the low 32 bits, as the kernel's `int`.
fn number(event: &Event<'_>, field: &str) -> Option<i32> {
    event.field(field)?.as_u64().map(|number| number as i32)
}

fn generic(event: &Event<'_>) -> Generic {
    let field = |(name, value): (&str, Value<'_>)| {
        let value = match value {
            Value::Signed(number) => FieldValue::Signed(number),
            Value::Unsigned(number) => FieldValue::Unsigned(number),
            Value::Text(text) => FieldValue::Text(text.into_owned()),
            other => FieldValue::Text(shown(&other)),
        };
        Field { name: Some(name.to_owned()), value: Some(value) }
    };
    Generic { event_name: Some(event.name().to_owned()), field: event.fields().map(field).collect() }
}

/// Formats a list or bytes as text: Perfetto's fields are numbers or strings.
fn shown(value: &Value<'_>) -> String {
    match value {
        Value::Signed(number) => number.to_string(),
        Value::Unsigned(number) => format!("{number:#x}"),
        Value::Text(text) => text.clone().into_owned(),
        Value::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        Value::List(list) => list.iter().map(shown).collect::<Vec<_>>().join(" "),
    }
}
