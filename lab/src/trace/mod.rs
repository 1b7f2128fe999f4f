//! Raw ring-buffer pages to typed events.
//!
//! A [`Trace`] is an opened `trace.dat`, the one form a recording is kept in. It yields the events
//! of all CPUs in the order of their times, borrowed from a buffer of fixed size, so that memory
//! does not grow with the trace; fields are decoded when they are asked for. Everything that was
//! lost is told as an [`Item::Loss`] with its place in time.
//!
//! The bytes come from a guest and are believed in nothing: whatever they say, the decoder ends,
//! does not panic, and takes no more memory than the limits named in [`dat`] and [`page`].
//!
//! ```no_run
//! use lab::trace::{Item, Trace};
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
#[cfg(test)]
mod event_tests;
mod format;
mod merge;
mod metadata;
pub mod page;
#[cfg(test)]
mod page_tests;
pub mod perfetto;
mod print;
mod symbols;
mod text;

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

/// What a trace yields, in the order of time.
#[derive(Debug)]
pub enum Item<'a> {
    /// An event.
    Event(Event<'a>),
    /// Events that were lost, told right before the first event behind them.
    Loss(Loss),
}

/// Events that one CPU's buffer lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The CPU whose buffer it was.
    pub cpu: u32,
    /// How many events; `None` where the kernel had no room to say it.
    pub lost: Option<u64>,
    /// The time of that CPU's last event before them; `None` if there was none, or if they may
    /// have been lost anywhere before `before`.
    pub after: Option<u64>,
    /// The time of that CPU's first event behind them; `None` if there was none, or if they may
    /// have been lost anywhere behind `after`.
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
    /// Opens a `trace.dat` of version 6 or 7 and reads all but its pages.
    pub fn open(path: &Path) -> Result<Trace> {
        let read = || {
            let file = File::open(path)?;
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

    /// How many bytes of pages there are; `None` where they are compressed, and nobody knows before
    /// they are read.
    pub fn unpacked_bytes(&self) -> Option<u64> {
        self.cpus.iter().map(CpuData::unpacked_bytes).sum()
    }

    /// What the trace says of its kernel.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The CPUs that have a buffer in the file, whether it holds events or not.
    pub fn cpus(&self) -> impl Iterator<Item = u32> + '_ {
        self.cpus.iter().map(|data| data.cpu)
    }

    /// Trace instances of the file other than the one that is read.
    pub fn instances(&self) -> &[String] {
        &self.instances
    }

    /// Hands every event and every loss to `visit`, in the order of time, until it breaks or
    /// fails. Losses without a place in time come last. An error names the CPU and the page.
    pub fn for_each(&self, mut visit: impl FnMut(Item<'_>) -> Result<ControlFlow<()>>) -> Result<()> {
        let mut streams: Vec<CpuStream<'_>> = self
            .cpus
            .iter()
            .map(|data| CpuStream::new(&self.file, data, &self.metadata, self.times))
            .collect();
        let damaged = || format!("the trace `{}` is damaged", self.path.display());
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
