//! The tapes: raw pages of the guest's ring buffers, written to a `trace.dat` per tracing instance with
//! everything that is needed to decode them.

use super::{
    formats::{Formats, Renumbered},
    link::{CHUNK, Link, unexpected},
    symbols::Symbols,
};
use crate::{
    machine::Death,
    plan::{below, directory},
    results::trace_of,
    scenario::TraceSetup,
};
use protocol::{Reply, Request};
use std::{collections::BTreeSet, io, path::Path};
use trace::dat::{TracefsFiles, Writer};

/// The maximum size of the pages in one reply while the guest writes to the buffer, in bytes.
const SIP: usize = 64 << 10;

/// The maximum number of such replies in a row.
const DRAINS: usize = 64;

/// The maximum size of the pages of all tracing instances, in bytes. Later events are lost.
pub(super) const TRACE_MAX: u64 = 1 << 30;

/// The trace of one tracing instance that is being recorded.
struct Tape {
    instance: Option<String>,
    writer: Writer,
    header_page: String,
}

/// A guest whose trace is recorded while it works.
pub(super) struct Traced<'a> {
    pub(super) link: Link<'a>,
    /// One per tracing instance, while the trace is recorded.
    tapes: Vec<Tape>,
    /// Of every event that was ever enabled in one of them: an event of one instance that leaks into another
    /// is decoded there.
    formats: Formats,
}

impl<'a> Traced<'a> {
    /// A guest whose trace is not recorded yet.
    pub(super) fn new(link: Link<'a>) -> Traced<'a> {
        Traced { link, tapes: Vec::new(), formats: Formats::default() }
    }

    /// Opens a tape in `directory` for each tracing instance and starts tracing.
    pub(super) fn start(&mut self, setup: &TraceSetup, directory: &Path) -> Result<(), Death> {
        let header_page = self.link.text("events/header_page")?;
        let instances: Vec<_> = [None].into_iter().chain(setup.instances().into_iter().map(Some)).collect();
        let max_bytes = TRACE_MAX / instances.len() as u64;
        for instance in instances {
            let path = directory.join(trace_of(instance));
            let writer = Writer::create(&path, &header_page, self.link.cpus());
            // The page layout is the guest's word.
            let writer = writer.map_err(|error| Death::AgentLost(format!("{error:#}")))?.limit(max_bytes);
            let (instance, header_page) = (instance.map(str::to_owned), header_page.clone());
            self.tapes.push(Tape { instance, writer, header_page });
        }
        self.learn_formats(false)?;
        self.each_instance(|instance| Request::StartTrace { instance }, "tracing to start")
    }

    /// Sends a request for each tracing instance that is recorded.
    fn each_instance(&mut self, request: impl Fn(String) -> Request, what: &str) -> Result<(), Death> {
        for tape in &self.tapes {
            match self.link.call(&request(tape.directory()))? {
                Reply::Done => {}
                other => return Err(unexpected(what, &other)),
            }
        }
        Ok(())
    }

    /// Reads the formats of events that were enabled or redefined since the last call; `modules` may have
    /// been loaded or unloaded.
    pub(super) fn learn_formats(&mut self, modules: bool) -> Result<(), Death> {
        let mut enabled = BTreeSet::new();
        for tape in &self.tapes {
            enabled.extend(self.link.text(&tape.below("set_event"))?.lines().map(str::to_owned));
        }
        for Renumbered { guest, before, now } in self.formats.learn(&mut self.link, &enabled, modules)? {
            for tape in &mut self.tapes {
                tape.writer.renumber(guest, before, now).map_err(Death::Lab)?;
            }
        }
        Ok(())
    }

    /// Marks the beginning of a step: what is read from now on may be of events that the step redefines.
    pub(super) fn mark(&mut self) -> Result<(), Death> {
        self.tapes.iter_mut().try_for_each(|tape| tape.writer.mark()).map_err(Death::Lab)
    }

    /// Reads the ring buffers: some of each while the guest writes to it, all of it `to_the_end`.
    pub(super) fn drain(&mut self, to_the_end: bool) -> Result<(), Death> {
        self.tapes.iter_mut().try_for_each(|tape| tape.drain(&mut self.link, to_the_end))
    }

    /// Stops tracing.
    pub(super) fn pause(&mut self) -> Result<(), Death> {
        self.each_instance(|instance| Request::StopTrace { instance }, "tracing to stop")
    }

    /// Stops tracing, reads the rest of the ring buffers, and closes the tapes. Returns whether they lack
    /// pages beyond [`TRACE_MAX`].
    pub(super) fn stop(&mut self, symbols: &Symbols<'_>) -> Result<bool, Death> {
        self.pause()?;
        self.drain(true)?;
        self.learn_formats(true)?;
        let cut = self.tapes.iter().any(|tape| tape.writer.is_cut());
        for tape in std::mem::take(&mut self.tapes) {
            let files = tape.tracefs_files(&mut self.link, &self.formats, symbols.kallsyms()?)?;
            tape.writer.finish(&files).map_err(Death::Lab)?;
        }
        Ok(cut)
    }
}

impl Tape {
    /// Returns the directory of the tracing instance, in the form that the agent takes.
    fn directory(&self) -> String {
        directory(self.instance.as_deref())
    }

    /// Returns the path of a file of the tracing instance.
    fn below(&self, file: &str) -> String {
        below(self.instance.as_deref(), file)
    }

    fn drain(&mut self, link: &mut Link<'_>, to_the_end: bool) -> Result<(), Death> {
        let max = if to_the_end { CHUNK } else { SIP };
        let drain = Request::DrainTrace { instance: self.directory(), max: max as u32 };
        let mut drains = 0;
        loop {
            let (cpus, more) = match link.call(&drain)? {
                Reply::Pages { cpus, more } => (cpus, more),
                other => return Err(unexpected("pages of the ring buffer", &other)),
            };
            let (mut taken, mut used) = (0, 0);
            for pages in cpus {
                taken += pages.data.len();
                used += self.writer.append(pages.cpu, &pages.data).map_err(bad_pages)?;
            }
            drains += 1;
            // A reader that has caught up with the writer gets pages with a few events each, which
            // fills the file with nothing and keeps the guest from its work.
            let caught_up = used < taken / 2;
            if !more || (!to_the_end && (caught_up || drains == DRAINS)) {
                return Ok(());
            }
        }
    }

    /// Reads the content of a `trace.dat` besides the pages.
    fn tracefs_files(
        &self,
        link: &mut Link<'_>,
        formats: &Formats,
        kallsyms: String,
    ) -> Result<TracefsFiles, Death> {
        let own = match link.call(&Request::ListDirectory { path: "events/ftrace".into() })? {
            Reply::Names(names) => names,
            other => return Err(unexpected("ftrace's own events", &other)),
        };
        let own = own.iter().filter_map(|name| name.strip_suffix('/'));
        let own: Vec<String> = own.map(|name| format!("events/ftrace/{name}/format")).collect();
        let ftrace_formats = link.files(&own)?.into_values().collect();
        let stats: Vec<String> =
            (0..link.cpus()).map(|cpu| self.below(&format!("per_cpu/cpu{cpu}/stats"))).collect();
        let mut stats_texts = link.files(&stats)?;
        let stats =
            (0..).zip(stats).filter_map(|(cpu, path)| Some((cpu, stats_texts.remove(&path)?))).collect();
        Ok(TracefsFiles {
            header_page: self.header_page.clone(),
            header_event: link.text("events/header_event")?,
            ftrace_formats,
            event_formats: formats.texts(),
            kallsyms,
            printk_formats: link.text("printk_formats")?,
            saved_cmdlines: link.text("saved_cmdlines")?,
            trace_clock: link.text(&self.below("trace_clock"))?,
            stats,
            uname: format!("Linux ftrace-lab {} aarch64", link.machine.hello().release),
            version: concat!("ftrace-lab ", env!("CARGO_PKG_VERSION")).to_owned(),
        })
    }
}

/// Converts the error of pages that cannot be stored: it is the disk's fault or the guest's.
fn bad_pages(error: anyhow::Error) -> Death {
    if error.chain().any(|cause| cause.is::<io::Error>()) {
        Death::Lab(error)
    } else {
        Death::AgentLost(format!("{error:#}"))
    }
}
