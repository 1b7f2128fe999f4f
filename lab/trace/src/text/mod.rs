//! The kernel's own text of a trace, as in the file `trace` of tracefs: made of raw events, formats and
//! symbols, and compared with what the kernel printed.
//!
//! What the ring buffer does not hold is stood for: the hash of a pointer, the time at which the buffer was
//! last reset, the size of a module's last symbol. The comparison requires that each of them is the same
//! wherever it is printed.
//!
//! The layout is that of kernels from 6.1 to 7.3.

mod compare;
mod context;
mod entry;
mod fields;
mod graph;
mod header;
mod line;
mod raw;
mod setting;

pub use compare::{Comparison, Difference};
pub use setting::Setting;

use crate::{
    Event, Item, Metadata, Trace,
    print::{KernelManner, Manner},
};
use anyhow::{Result, bail};
use compare::Comparer;
use line::Line;
use std::{collections::BTreeMap, ops::ControlFlow};

/// The maximum number of events of one text.
const EVENTS_MAX: usize = 100_000;

/// An event of the text, with the bytes of its record.
pub(super) struct Record {
    time: u64,
    cpu: u32,
    data: Vec<u8>,
}

impl Record {
    pub(super) fn event<'a>(&'a self, metadata: &'a Metadata) -> Event<'a> {
        Event::new(self.time, self.cpu, &self.data, metadata)
    }
}

/// Everything that a text is made of.
pub(super) struct Source<'a> {
    metadata: &'a Metadata,
    setting: &'a Setting,
    /// The events that were in the ring buffer, in the order of the text.
    records: &'a [Record],
    /// Major and minor version of the kernel.
    version: (u32, u32),
}

impl Source<'_> {
    fn is_on(&self, option: &str) -> bool {
        self.setting.is_on(option)
    }

    fn manner(&self) -> KernelManner {
        KernelManner {
            // Not an option before 5.12.
            hashed: !self.setting.has("hash-ptr") || self.is_on("hash-ptr"),
            offset: self.is_on("sym-offset"),
            address: self.is_on("sym-addr"),
        }
    }

    fn printing(&self) -> Manner {
        Manner::Kernel(self.manner())
    }

    /// Formats an address as the options say.
    fn ip(&self, address: u64) -> String {
        self.manner().ip(self.metadata.symbols(), address)
    }
}

impl Trace {
    /// Compares the events of the trace with the kernel's text of them.
    ///
    /// # Errors
    /// The trace is corrupt, or the text has a form that is not known here.
    pub fn compare_text(&self, setting: &Setting, text: &[u8]) -> Result<Comparison> {
        let records = self.records(setting)?;
        let Some(version) = version(self.metadata().uname()) else {
            bail!("the trace does not name the version of its kernel")
        };
        let source = Source { metadata: self.metadata(), setting, records: &records, version };
        let lossy;
        let text = match source.is_on("bin") {
            true => text,
            // Like the texts of events.
            false => {
                lossy = String::from_utf8_lossy(text);
                lossy.as_bytes()
            }
        };
        let mut comparer = Comparer::new(text, setting.cut);
        let head = header::header(&source)?;
        if comparer.take(&head, None) {
            events(&source, |line, event| comparer.take(&line, event))?;
        }
        Ok(comparer.finish(records.len()))
    }

    /// Returns the events that were in the ring buffer when the kernel printed it.
    fn records(&self, setting: &Setting) -> Result<Vec<Record>> {
        let mut seen: BTreeMap<u32, u64> = BTreeMap::new();
        let mut records = Vec::new();
        let mut crowded = false;
        self.for_each(|item| {
            let Item::Event(event) = item else { return Ok(ControlFlow::Continue(())) };
            let seen = seen.entry(event.cpu).or_default();
            *seen += 1;
            let read_before = setting.read_before.get(event.cpu as usize).copied().unwrap_or(0);
            if *seen > read_before && setting.cpu.is_none_or(|cpu| cpu == event.cpu) {
                crowded = records.len() == EVENTS_MAX;
                if crowded {
                    return Ok(ControlFlow::Break(()));
                }
                records.push(Record { time: event.time, cpu: event.cpu, data: event.data().to_vec() });
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if crowded {
            bail!("there are more than {EVENTS_MAX} events");
        }
        Ok(records)
    }
}

/// Passes the text of each event to `visit`, until that returns false.
fn events(source: &Source<'_>, mut visit: impl FnMut(Line, Option<&Event<'_>>) -> bool) -> Result<()> {
    if source.setting.tracer == "function_graph" {
        return graph::events(source, &mut visit);
    }
    let mut started = context::Started::default();
    for (index, record) in source.records.iter().enumerate() {
        let event = record.event(source.metadata);
        let mut line = Line::default();
        entry::append(source, index, &event, &mut started, &mut line)?;
        if !visit(line, Some(&event)) {
            break;
        }
    }
    Ok(())
}

/// Returns major and minor version of a `uname`: `Linux ftrace-lab 6.12.107 aarch64`.
fn version(uname: &str) -> Option<(u32, u32)> {
    let mut numbers = release(uname)?.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Returns the release of the kernel.
fn release(uname: &str) -> Option<&str> {
    uname.split_whitespace().nth(2)
}
