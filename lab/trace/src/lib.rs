//! Decodes raw ring-buffer pages into typed events.
//!
//! A [`Trace`] is an opened `trace.dat`, the only format in which recordings are stored. It yields
//! the events of all CPUs in time order, borrowed from a buffer of fixed size, so that memory does
//! not grow with the trace; fields are decoded on request. Each loss is reported as an
//! [`Item::Loss`], at its position in time.
//!
//! The bytes come from a guest and are not trusted: for any input, the decoder terminates, does not
//! panic, and uses no more memory than the limits in [`dat`] and [`page`] allow.
//!
//! ```no_run
//! use trace::{Item, Trace};
//! use std::{ops::ControlFlow, path::Path};
//!
//! let trace = Trace::open(Path::new("trace.dat"))?;
//! trace.for_each(|item| {
//!     if let Item::Event(event) = item {
//!         println!("{}", trace.display(&event));
//!     }
//!     Ok(ControlFlow::Continue(()))
//! })?;
//! # anyhow::Ok(())
//! ```

pub mod dat;
pub mod diff;
mod display;
mod event;
mod fields;
mod format;
mod merge;
mod metadata;
pub mod page;
pub mod perfetto;
mod print;
mod symbols;
pub mod text;

pub use event::{Event, Value};
pub use format::{EventFormat, FieldFormat};
pub use metadata::{CpuStats, Metadata};
pub use print::{Printed, Table};
pub use symbols::{Symbol, Symbols};

use anyhow::{Context, Result};
use dat::{CpuData, Times};
use merge::{CpuStream, Order};
use std::{
    fs::File,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

/// An item of a trace, in time order.
#[derive(Debug)]
pub enum Item<'a> {
    /// An event.
    Event(Event<'a>),
    /// Lost events, reported right before the first event after them.
    Loss(Loss),
}

/// Events lost from one CPU's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The CPU of the buffer.
    pub cpu: u32,
    /// The number of events; `None` if the kernel had no room to store it.
    pub lost: Option<u64>,
    /// The time of that CPU's last event before the loss; `None` if there was none, or if the
    /// events may have been lost anywhere before `before`.
    pub after: Option<u64>,
    /// The time of that CPU's first event after the loss; `None` if there was none, or if the
    /// events may have been lost anywhere after `after`.
    pub before: Option<u64>,
}

/// An opened trace file.
#[derive(Debug)]
pub struct Trace {
    file: File,
    path: PathBuf,
    metadata: Metadata,
    cpus: Vec<CpuData>,
    instances: Vec<String>,
    times: Times,
}

impl Trace {
    /// Opens a `trace.dat` of version 6 or 7 and reads everything except its pages.
    pub fn open(path: &Path) -> Result<Trace> {
        let opened = File::open(path);
        let file = opened.with_context(|| format!("cannot open the trace `{}`", path.display()))?;
        Trace::of_file(file, path)
    }

    /// Like [`open`](Trace::open), but from a file that is already open; `path` is for messages.
    pub fn of_file(file: File, path: &Path) -> Result<Trace> {
        let read = || {
            let contents = dat::open(&file)?;
            let metadata = Metadata::new(contents.texts)?;
            anyhow::Ok(Trace {
                file,
                path: path.to_owned(),
                metadata,
                cpus: contents.cpus,
                instances: contents.instances,
                times: contents.times,
            })
        };
        read().with_context(|| format!("cannot open the trace `{}`", path.display()))
    }

    /// Returns the number of bytes of pages; `None` if they are compressed, when the number is not
    /// known before they are read.
    pub fn unpacked_bytes(&self) -> Option<u64> {
        self.cpus.iter().map(CpuData::unpacked_bytes).sum()
    }

    /// Returns the metadata of the trace.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns the CPUs that have a buffer in the file, even an empty one.
    pub fn cpus(&self) -> impl Iterator<Item = u32> + '_ {
        self.cpus.iter().map(|data| data.cpu)
    }

    /// Returns the names of the file's other tracing instances, which are not read.
    pub fn instances(&self) -> &[String] {
        &self.instances
    }

    /// Passes each event and each loss to `visit`, in time order, until it breaks or fails. Losses
    /// without a position in time come last. An error names the CPU and the page.
    pub fn for_each(&self, mut visit: impl FnMut(Item<'_>) -> Result<ControlFlow<()>>) -> Result<()> {
        let mut streams: Vec<CpuStream<'_>> = self
            .cpus
            .iter()
            .map(|data| CpuStream::new(&self.file, data, &self.metadata, self.times))
            .collect();
        let damaged = || format!("the trace `{}` is corrupt", self.path.display());
        let mut order = Order::new(&mut streams).with_context(damaged)?;
        while let Some(number) = order.next() {
            let Some(stream) = streams.get_mut(number) else { break };
            loop {
                if let Some(loss) = stream.loss()
                    && visit(Item::Loss(loss))?.is_break()
                {
                    return Ok(());
                }
                let Some((time, data)) = stream.event() else { break };
                let event = Event::new(time, stream.cpu, data, &self.metadata);
                if visit(Item::Event(event))?.is_break() {
                    return Ok(());
                }
                stream.advance().with_context(damaged)?;
                match stream.event() {
                    Some((time, _)) if order.stays(time, number) => {}
                    _ => break,
                }
            }
        }
        for stream in &mut streams {
            let stats = self.metadata.stats().get(&stream.cpu);
            for loss in stream.trailing(stats).into_iter().flatten() {
                if visit(Item::Loss(loss))?.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
