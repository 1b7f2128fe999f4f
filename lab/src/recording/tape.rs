//! The tapes: raw pages of the guest's ring buffers into a `trace.dat` for each tracing instance, with
//! all that is needed to read them again.

use super::{CHUNK, Recorder, read, unexpected};
use crate::{
    machine::Death,
    plan::{below, directory},
    scenario::TraceSetup,
    stored::trace_of,
    trace::dat::{TracefsFiles, Writer},
};
use protocol::{Reply, Request};
use std::{collections::BTreeMap, io};

/// The most bytes of pages that one reply brings while the buffer is written to.
const SIP: usize = 64 << 10;

/// How many of these replies are taken in a row while something else is waited for.
const DRAINS: usize = 64;

/// The trace of one tracing instance that is being recorded.
pub(super) struct Tape {
    instance: Option<String>,
    writer: Writer,
    header_page: String,
    /// `SYSTEM:NAME` to the format of every event that was ever enabled: a dynamic event can be
    /// gone before the trace is read.
    formats: BTreeMap<String, String>,
}

impl Recorder<'_> {
    /// Opens a tape for each tracing instance and lets the ring buffers fill.
    pub(super) fn start_trace(&mut self, setup: &TraceSetup) -> Result<(), Death> {
        let header_page = self.text("events/header_page")?;
        for instance in [None].into_iter().chain(setup.instances().into_iter().map(Some)) {
            let path = self.directory.join(trace_of(instance));
            let writer = Writer::create(&path, &header_page, self.machine.hello().cpus);
            // What the kernel says of its pages is the guest's word.
            let writer = writer.map_err(|error| Death::AgentLost(format!("{error:#}")))?;
            let (instance, header_page) = (instance.map(str::to_owned), header_page.clone());
            self.tapes.push(Tape { instance, writer, header_page, formats: BTreeMap::new() });
        }
        self.learn_formats()?;
        for instance in self.recorded() {
            match self.call(&Request::StartTrace { instance })? {
                Reply::Done => {}
                other => return Err(unexpected("tracing to start", &other)),
            }
        }
        Ok(())
    }

    /// The directories of the instances that are being recorded, as the agent takes them.
    fn recorded(&self) -> Vec<String> {
        self.tapes.iter().map(|tape| directory(tape.instance.as_deref())).collect()
    }

    /// Reads the formats of enabled events that were not enabled before.
    pub(super) fn learn_formats(&mut self) -> Result<(), Death> {
        for index in 0..self.tapes.len() {
            let Some(tape) = self.tapes.get(index) else { continue };
            let enabled = below(tape.instance.as_deref(), "set_event");
            let enabled = self.text(&enabled)?;
            self.learn(index, &enabled)?;
        }
        Ok(())
    }

    fn learn(&mut self, index: usize, enabled: &str) -> Result<(), Death> {
        let Some(tape) = self.tapes.get(index) else { return Ok(()) };
        let new: Vec<String> =
            enabled.lines().filter(|event| !tape.formats.contains_key(*event)).map(str::to_owned).collect();
        let paths: Vec<String> =
            new.iter().map(|event| format!("events/{}/format", event.replacen(':', "/", 1))).collect();
        let mut texts = self.files(&paths)?;
        let Some(tape) = self.tapes.get_mut(index) else { return Ok(()) };
        for (event, path) in new.into_iter().zip(paths) {
            if let Some(text) = texts.remove(&path) {
                tape.formats.insert(event, text);
            }
        }
        Ok(())
    }

    /// Takes what the ring buffers hold: some of it while they are written to, all of it `to_the_end`.
    pub(super) fn drain(&mut self, to_the_end: bool) -> Result<(), Death> {
        (0..self.tapes.len()).try_for_each(|index| self.drain_one(index, to_the_end))
    }

    fn drain_one(&mut self, index: usize, to_the_end: bool) -> Result<(), Death> {
        let Some(tape) = self.tapes.get(index) else { return Ok(()) };
        let instance = directory(tape.instance.as_deref());
        let max = if to_the_end { CHUNK } else { SIP };
        let drain = Request::DrainTrace { instance, max: max as u32 };
        let mut drains = 0;
        loop {
            let (cpus, more) = match self.call(&drain)? {
                Reply::Pages { cpus, more } => (cpus, more),
                other => return Err(unexpected("pages of the ring buffer", &other)),
            };
            let Some(tape) = self.tapes.get_mut(index) else { return Ok(()) };
            let (mut taken, mut used) = (0, 0);
            for pages in cpus {
                taken += pages.data.len();
                used += tape.writer.append(pages.cpu, &pages.data).map_err(bad_pages)?;
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

    /// Stops the trace, takes the rest, and closes the tapes.
    pub(super) fn stop_trace(&mut self) -> Result<(), Death> {
        for instance in self.recorded() {
            match self.call(&Request::StopTrace { instance })? {
                Reply::Done => {}
                other => return Err(unexpected("tracing to stop", &other)),
            }
        }
        self.drain(true)?;
        self.learn_formats()?;
        for tape in std::mem::take(&mut self.tapes) {
            let files = self.tracefs_files(&tape)?;
            tape.writer.finish(&files).map_err(Death::Lab)?;
        }
        Ok(())
    }

    /// All that a `trace.dat` holds beside the pages.
    fn tracefs_files(&mut self, tape: &Tape) -> Result<TracefsFiles, Death> {
        let below = |file: &str| below(tape.instance.as_deref(), file);
        let own = match self.call(&Request::ListDirectory { path: "events/ftrace".into() })? {
            Reply::Names(names) => names,
            other => return Err(unexpected("ftrace's own events", &other)),
        };
        let own = own.iter().filter_map(|name| name.strip_suffix('/'));
        let own: Vec<String> = own.map(|name| format!("events/ftrace/{name}/format")).collect();
        let ftrace_formats = self.files(&own)?.into_values().collect();
        let cpus = self.machine.hello().cpus;
        let stats: Vec<String> = (0..cpus).map(|cpu| below(&format!("per_cpu/cpu{cpu}/stats"))).collect();
        let mut stats_texts = self.files(&stats)?;
        let stats =
            (0..).zip(stats).filter_map(|(cpu, path)| Some((cpu, stats_texts.remove(&path)?))).collect();
        let (header_event, printk_formats) =
            (self.text("events/header_event")?, self.text("printk_formats")?);
        let (saved_cmdlines, trace_clock) = (self.text("saved_cmdlines")?, self.text(&below("trace_clock"))?);
        let hello = self.machine.hello();
        let uname = format!("Linux ftrace-lab {} aarch64", hello.release);
        let system = |event: &str| event.split(':').next().unwrap_or_default().to_owned();
        Ok(TracefsFiles {
            header_page: tape.header_page.clone(),
            header_event,
            ftrace_formats,
            event_formats: tape.formats.iter().map(|(event, text)| (system(event), text.clone())).collect(),
            kallsyms: self.text_symbols()?,
            printk_formats,
            saved_cmdlines,
            trace_clock,
            stats,
            uname,
            version: concat!("ftrace-lab ", env!("CARGO_PKG_VERSION")).to_owned(),
        })
    }

    /// The functions of the kernel and of modules by address.
    pub(super) fn text_symbols(&self) -> Result<String, Death> {
        let kernel = self.kernel.functions().map_err(Death::Lab)?;
        Ok([kernel, &self.module_symbols].concat())
    }

    /// A tracefs file that every kernel has.
    fn text(&mut self, path: &str) -> Result<String, Death> {
        match self.call(&read(path))? {
            Reply::Data(data) => Ok(String::from_utf8_lossy(&data).into_owned()),
            other => Err(unexpected(path, &other)),
        }
    }
}

/// Pages that cannot be stored: the disk's fault, or the guest's.
fn bad_pages(error: anyhow::Error) -> Death {
    if error.chain().any(|cause| cause.is::<io::Error>()) {
        Death::Lab(error)
    } else {
        Death::AgentLost(format!("{error:#}"))
    }
}
