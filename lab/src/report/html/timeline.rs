//! A trace as columns for the timeline in the browser: a JSON head, then numbers, then texts.
//!
//! ```text
//! u32      the length of the head, little-endian
//! head     JSON: kinds, tasks, CPUs, losses, counts
//! numbers  for each event, as LEB128: time since the previous one, in units of the clock, kind, task,
//!          CPU; four columns, one after the other
//! texts    for each kind, in the order of the head, the messages of its events, NUL-terminated
//! ```
//!
//! Grouping similar messages by kind halves their packed size.

use crate::{host::beneath::trace_beneath, results::TRACE};
use anyhow::{Context, Result};
use serde::Serialize;
use std::{collections::HashMap, ops::ControlFlow, path::Path};
use trace::{Event, Item, Trace};

/// The maximum number of events of one trace in the report.
const EVENTS_MAX: u64 = 50_000;

/// The maximum number of bytes of an event's message.
const TEXT_MAX: usize = 400;

/// A trace with at most this many bytes of pages has at most [`EVENTS_MAX`] events: each takes at least 8.
const CERTAINLY_FEW: u64 = EVENTS_MAX * 8;

/// The head, which describes the columns.
#[derive(Default, Serialize)]
struct Head {
    /// The number of events that follow.
    events: usize,
    /// The number of events in the trace.
    total: u64,
    /// The index of the first event after omitted ones; absent if none are omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    cut: Option<usize>,
    /// The timestamp of the first event, in units of the clock: too large for a JavaScript number.
    start: String,
    clock: String,
    nanoseconds: bool,
    kinds: Vec<String>,
    /// PID and name.
    tasks: Vec<(i32, String)>,
    cpus: Vec<u32>,
    /// CPU, number of lost events if known, and index of the next event.
    losses: Vec<(u32, Option<u64>, usize)>,
    /// Why the trace ends early; empty if it does not.
    #[serde(skip_serializing_if = "String::is_empty")]
    damage: String,
}

/// The columns while they are built; `numbers` are time, kind, task and CPU.
#[derive(Default)]
struct Columns {
    head: Head,
    numbers: [Vec<u8>; 4],
    texts: Vec<Vec<u8>>,
    kinds: HashMap<usize, u64>,
    tasks: HashMap<i32, u64>,
    last: u64,
}

/// Opens the trace of the result in `place`, if there is one.
pub(super) fn open(place: &Path) -> Result<Option<Trace>> {
    if place.join(TRACE).is_file() { trace_beneath(place, TRACE).map(Some) } else { Ok(None) }
}

/// Returns the columns of a trace, and the number of its events.
pub(super) fn timeline(trace: &Trace) -> Result<(Vec<u8>, u64)> {
    let mut columns = Columns::default();
    let few = trace.unpacked_bytes().is_some_and(|bytes| bytes <= CERTAINLY_FEW);
    let counted = if few { None } else { Some(count(trace)) };
    // The beginning and the end are the most useful parts.
    let left_out = match counted {
        Some(total) if total > EVENTS_MAX => EVENTS_MAX / 2..total - EVENTS_MAX / 2,
        _ => 0..0,
    };
    let mut total = 0;
    let visited = trace.for_each(|item| {
        match item {
            Item::Event(event) => {
                if !left_out.contains(&total) {
                    columns.event(trace, &event);
                } else if columns.head.cut.is_none() {
                    columns.head.cut = Some(columns.head.events);
                }
                total += 1;
            }
            Item::Loss(loss) => {
                let head = &mut columns.head;
                head.losses.push((loss.cpu, loss.lost, head.events));
            }
        }
        Ok(ControlFlow::Continue(()))
    });
    // Events before a corrupt part are still useful.
    columns.head.damage = visited.err().map(|error| format!("{error:#}")).unwrap_or_default();
    columns.head.total = total;
    columns.head.clock = trace.metadata().clock().to_owned();
    columns.head.nanoseconds = trace.metadata().counts_nanoseconds();
    columns.head.cpus = trace.cpus().collect();
    Ok((columns.bytes()?, total))
}

fn count(trace: &Trace) -> u64 {
    let mut total = 0;
    // Corruption is found again and reported when the events are read.
    let _ = trace.for_each(|item| {
        total += u64::from(matches!(item, Item::Event(_)));
        Ok(ControlFlow::Continue(()))
    });
    total
}

impl Columns {
    fn event(&mut self, trace: &Trace, event: &Event<'_>) {
        if self.head.events == 0 {
            self.head.start = event.time.to_string();
            self.last = event.time;
        }
        let kind = self.kind(event);
        let task = *self.tasks.entry(event.pid).or_insert_with(|| {
            self.head.tasks.push((event.pid, shown(&event.comm())));
            self.head.tasks.len() as u64 - 1
        });
        let numbers = [event.time.saturating_sub(self.last), kind, task, u64::from(event.cpu)];
        for (column, number) in self.numbers.iter_mut().zip(numbers) {
            leb128(number, column);
        }
        self.last = self.last.max(event.time);
        self.head.events += 1;
        if let Some(texts) = self.texts.get_mut(kind as usize) {
            texts.extend_from_slice(shown(&trace.message(event)).as_bytes());
            texts.push(0);
        }
    }

    /// Returns the index of an event's kind; formats are identified by their addresses.
    fn kind(&mut self, event: &Event<'_>) -> u64 {
        let format = std::ptr::from_ref(event.format()).addr();
        *self.kinds.entry(format).or_insert_with(|| {
            self.head.kinds.push(format!("{}:{}", event.group(), event.name()));
            self.texts.push(Vec::new());
            self.texts.len() as u64 - 1
        })
    }

    fn bytes(&self) -> Result<Vec<u8>> {
        let head = serde_json::to_vec(&self.head)?;
        let mut bytes =
            u32::try_from(head.len()).context("the head of a timeline is too long")?.to_le_bytes().to_vec();
        bytes.extend(head);
        self.numbers.iter().chain(&self.texts).for_each(|column| bytes.extend(column));
        Ok(bytes)
    }
}

/// Replaces control characters in guest text and truncates it to [`TEXT_MAX`] bytes.
fn shown(text: &str) -> String {
    let plain = |c: char| if c.is_control() && c != '\n' { '\u{fffd}' } else { c };
    let mut shown: String = text.trim().chars().map(plain).collect();
    if shown.len() > TEXT_MAX {
        let end = (0..=TEXT_MAX).rev().find(|&end| shown.is_char_boundary(end)).unwrap_or_default();
        shown.truncate(end);
        shown.push('…');
    }
    shown
}

fn leb128(mut number: u64, into: &mut Vec<u8>) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &mut std::slice::Iter<'_, u8>) -> u64 {
        let mut number = 0;
        for shift in (0..).step_by(7) {
            let byte = *bytes.next().unwrap();
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        number
    }

    #[test]
    fn columns_hold_the_events_of_the_trace() {
        for name in ["kprobes.dat", "stacks.dat", "overrun.dat", "7.2-graph.dat"] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/trace").join(name);
            let trace = Trace::open(&path).unwrap();
            let mut expect = Vec::new();
            let mut losses = 0;
            trace
                .for_each(|item| {
                    match item {
                        Item::Event(event) => {
                            let name = format!("{}:{}", event.group(), event.name());
                            expect.push((
                                event.time,
                                event.cpu,
                                event.pid,
                                name,
                                shown(&trace.message(&event)),
                            ));
                        }
                        Item::Loss(_) => losses += 1,
                    }
                    Ok(ControlFlow::Continue(()))
                })
                .unwrap();
            let (bytes, total) = timeline(&trace).unwrap();
            assert_eq!(total, expect.len() as u64);
            let (length, rest) = bytes.split_first_chunk().unwrap();
            let (head, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
            let head: serde_json::Value = serde_json::from_slice(head).unwrap();
            assert_eq!(head["losses"].as_array().unwrap().len(), losses, "{name}");
            let mut numbers = rest.iter();
            let columns: Vec<Vec<u64>> =
                (0..4).map(|_| expect.iter().map(|_| read(&mut numbers)).collect()).collect();
            let texts: Vec<&str> =
                std::str::from_utf8(numbers.as_slice()).unwrap().split_terminator('\0').collect();
            assert_eq!(texts.len(), expect.len());
            let mut time: u64 = head["start"].as_str().unwrap().parse().unwrap();
            let kinds = head["kinds"].as_array().unwrap().len() as u64;
            let of_kind = |kind: u64| columns[1].iter().filter(|other| **other == kind).count();
            let starts: Vec<usize> = (0..kinds).map(|kind| (0..kind).map(of_kind).sum()).collect();
            let mut met = vec![0; kinds as usize];
            for (index, (at, cpu, pid, kind, text)) in expect.iter().enumerate() {
                time += columns[0][index];
                let number = columns[1][index] as usize;
                let task = &head["tasks"][columns[2][index] as usize];
                assert_eq!((time, columns[3][index]), (*at, u64::from(*cpu)), "{name}");
                assert_eq!(head["kinds"][number], **kind);
                assert_eq!(task[0], *pid);
                assert_eq!(texts[starts[number] + met[number]], text);
                met[number] += 1;
            }
        }
    }

    #[test]
    fn a_text_has_an_end() {
        assert_eq!(shown("a\0b\x1b\nc "), "a\u{fffd}b\u{fffd}\nc");
        assert_eq!(shown(&"ä".repeat(400)).chars().count(), TEXT_MAX / 2 + 1);
    }
}
