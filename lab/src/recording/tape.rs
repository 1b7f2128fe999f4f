//! The tape: raw pages of the guest's ring buffer into `trace.dat`, with all that is needed to
//! read them again.

use super::{CHUNK, Recorder, read, unexpected};
use crate::{
    machine::Death,
    stored::TRACE,
    trace::dat::{TracefsFiles, Writer},
};
use protocol::{Reply, Request};
use std::{collections::BTreeMap, io};

/// The instance that is recorded: the top-level one.
const TOP: &str = "";

/// The most bytes of pages that one reply brings while the buffer is written to.
const SIP: usize = 64 << 10;

/// How many of these replies are taken in a row while something else is waited for.
const DRAINS: usize = 64;

/// A trace that is being recorded.
pub(super) struct Tape {
    writer: Writer,
    header_page: String,
    /// `SYSTEM:NAME` to the format of every event that was ever enabled: a dynamic event can be
    /// gone before the trace is read.
    formats: BTreeMap<String, String>,
}

impl Recorder<'_> {
    /// Opens the tape and lets the ring buffer fill.
    pub(super) fn start_trace(&mut self) -> Result<(), Death> {
        let header_page = self.text("events/header_page")?;
        let path = self.directory.join(TRACE);
        let writer = Writer::create(&path, &header_page, self.machine.hello().cpus);
        // What the kernel says of its pages is the guest's word.
        let writer = writer.map_err(|error| Death::AgentLost(format!("{error:#}")))?;
        self.tape = Some(Tape { writer, header_page, formats: BTreeMap::new() });
        self.learn_formats()?;
        match self.call(&Request::StartTrace { instance: TOP.into() })? {
            Reply::Done => Ok(()),
            other => Err(unexpected("tracing to start", &other)),
        }
    }

    /// Reads the formats of enabled events that were not enabled before.
    pub(super) fn learn_formats(&mut self) -> Result<(), Death> {
        let enabled = self.text("set_event")?;
        let Some(tape) = &mut self.tape else { return Ok(()) };
        let new: Vec<String> =
            enabled.lines().filter(|event| !tape.formats.contains_key(*event)).map(str::to_owned).collect();
        let paths: Vec<String> =
            new.iter().map(|event| format!("events/{}/format", event.replacen(':', "/", 1))).collect();
        let mut texts = self.files(&paths)?;
        let Some(tape) = &mut self.tape else { return Ok(()) };
        for (event, path) in new.into_iter().zip(paths) {
            if let Some(text) = texts.remove(&path) {
                tape.formats.insert(event, text);
            }
        }
        Ok(())
    }

    /// Takes what the ring buffer holds: some of it while it is written to, all of it `to_the_end`.
    pub(super) fn drain(&mut self, to_the_end: bool) -> Result<(), Death> {
        let max = if to_the_end { CHUNK } else { SIP };
        let drain = Request::DrainTrace { instance: TOP.into(), max: max as u32 };
        let mut drains = 0;
        loop {
            let (cpus, more) = match self.call(&drain)? {
                Reply::Pages { cpus, more } => (cpus, more),
                other => return Err(unexpected("pages of the ring buffer", &other)),
            };
            let Some(tape) = &mut self.tape else { return Ok(()) };
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

    /// Stops the trace, takes the rest, and closes the tape.
    pub(super) fn stop_trace(&mut self) -> Result<(), Death> {
        match self.call(&Request::StopTrace { instance: TOP.into() })? {
            Reply::Done => {}
            other => return Err(unexpected("tracing to stop", &other)),
        }
        self.drain(true)?;
        self.learn_formats()?;
        let files = self.tracefs_files()?;
        let Some(tape) = self.tape.take() else { return Ok(()) };
        tape.writer.finish(&files).map_err(Death::Lab)
    }

    /// All that `trace.dat` holds beside the pages.
    fn tracefs_files(&mut self) -> Result<TracefsFiles, Death> {
        let own = match self.call(&Request::ListDirectory { path: "events/ftrace".into() })? {
            Reply::Names(names) => names,
            other => return Err(unexpected("ftrace's own events", &other)),
        };
        let own = own.iter().filter_map(|name| name.strip_suffix('/'));
        let own: Vec<String> = own.map(|name| format!("events/ftrace/{name}/format")).collect();
        let ftrace_formats = self.files(&own)?.into_values().collect();
        let cpus = self.machine.hello().cpus;
        let stats: Vec<String> = (0..cpus).map(|cpu| format!("per_cpu/cpu{cpu}/stats")).collect();
        let mut stats_texts = self.files(&stats)?;
        let stats =
            (0..).zip(stats).filter_map(|(cpu, path)| Some((cpu, stats_texts.remove(&path)?))).collect();
        let (header_event, printk_formats) =
            (self.text("events/header_event")?, self.text("printk_formats")?);
        let (saved_cmdlines, trace_clock) = (self.text("saved_cmdlines")?, self.text("trace_clock")?);
        let hello = self.machine.hello();
        let uname = format!("Linux ftrace-lab {} aarch64", hello.release);
        let tape = self.tape.as_ref();
        let formats = tape.into_iter().flat_map(|tape| &tape.formats);
        let system = |event: &str| event.split(':').next().unwrap_or_default().to_owned();
        Ok(TracefsFiles {
            header_page: tape.map(|tape| tape.header_page.clone()).unwrap_or_default(),
            header_event,
            ftrace_formats,
            event_formats: formats.map(|(event, text)| (system(event), text.clone())).collect(),
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
