//! The tapes: raw pages of the guest's ring buffers, written to a `trace.dat` per tracing instance with
//! everything that is needed to decode them.

use super::{
    clearing::{exchanges_buffers, may_clear, stay},
    formats::{Formats, Renumbered, injected},
    ledger::Ledger,
    link::{CHUNK, Link, read, texts, unexpected},
    symbols::Symbols,
};
use crate::{
    machine::Death,
    plan::{below, directory},
    results::trace_of,
    scenario::{Scenario, Step, TraceSetup},
};
use protocol::{Reply, Request};
use std::{collections::BTreeSet, io, iter, path::Path};
use trace::{
    CpuStats,
    dat::{TracefsFiles, Writer},
};

/// The maximum size of the pages in one reply while the guest writes to the buffer, in bytes.
const SIP: usize = 64 << 10;

/// The maximum number of such replies in a row while a program runs: 4 MiB.
const DRAINS: usize = 64;

/// The maximum size of the pages of all tracing instances, in bytes. Later events are lost.
const TRACE_MAX: u64 = 1 << 30;

/// The list of dynamic events.
const DYNAMIC: &str = "dynamic_events";

/// The trace of one tracing instance that is being recorded.
struct Tape {
    instance: Option<String>,
    writer: Writer,
    header_page: String,
    /// One per CPU.
    ledgers: Vec<Ledger>,
    /// The number of events that were stored, per CPU.
    stored: Vec<u64>,
}

/// How much of a ring buffer to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Drain {
    /// Some, while programs write to it.
    Some,
    /// What it held when its counters were compared. A tracer of all functions fills it faster than it is
    /// read.
    Present,
    /// Everything, after tracing has stopped.
    All,
}

/// A guest whose trace is recorded while it works.
pub(super) struct Traced<'a> {
    pub(super) link: Link<'a>,
    /// One per tracing instance, while the trace is recorded.
    tapes: Vec<Tape>,
    /// Of every event that was ever enabled in one of them: an event of one instance that leaks into another
    /// is decoded there.
    formats: Formats,
    /// Events that were written to `inject` files.
    injected: BTreeSet<String>,
    /// Whether events stay in the buffer, see [`Traced::keep`].
    keeps: bool,
}

impl<'a> Traced<'a> {
    /// A guest whose trace is not recorded yet.
    pub(super) fn new(link: Link<'a>) -> Traced<'a> {
        Traced {
            link,
            tapes: Vec::new(),
            formats: Formats::default(),
            injected: BTreeSet::new(),
            keeps: false,
        }
    }

    /// Decides whether events stay in the buffer during the step of this number. Before a step that may clear it, they
    /// are read in any case.
    pub(super) fn keep(&mut self, scenario: &Scenario, number: usize) {
        self.keeps = stay(scenario, number);
    }

    /// Returns the number of events of each CPU of a tracing instance that are stored.
    pub(super) fn stored(&self, instance: Option<&str>) -> &[u64] {
        let tape = self.tapes.iter().find(|tape| tape.instance.as_deref() == instance);
        tape.map_or(&[], |tape| &tape.stored)
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
            self.tapes.push(Tape { instance, writer, header_page, ledgers: Vec::new(), stored: Vec::new() });
        }
        let replies = self.link.call_all(&self.counter_requests())?;
        let counters = self.counters(replies)?;
        for (tape, (_, stats)) in self.tapes.iter_mut().zip(counters) {
            tape.stored = vec![0; stats.len()];
            tape.ledgers = stats.into_iter().map(Ledger::new).collect();
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
    fn learn_formats(&mut self, modules: bool) -> Result<(), Death> {
        let enabled: Vec<String> = self.tapes.iter().map(|tape| tape.below("set_event")).collect();
        let mut texts = self.link.files(&[enabled.as_slice(), &[DYNAMIC.to_owned()]].concat())?;
        // Not every kernel has it.
        let dynamic = texts.remove(DYNAMIC).unwrap_or_default();
        if let Some(missing) = enabled.iter().find(|path| !texts.contains_key(*path)) {
            return Err(Death::AgentLost(format!("cannot read `{missing}`")));
        }
        let enabled = texts.values().flat_map(|text| text.lines()).map(str::to_owned);
        let enabled = self.injected.iter().cloned().chain(enabled).collect();
        for Renumbered { guest, before, now } in
            self.formats.learn(&mut self.link, &enabled, &dynamic, modules)?
        {
            for tape in &mut self.tapes {
                tape.writer.renumber(guest, before, now).map_err(Death::Lab)?;
            }
        }
        Ok(())
    }

    /// Reads the ring buffers before a step that may clear them. Says what was lost in earlier steps.
    pub(super) fn before_step(&mut self, step: &Step) -> Result<Vec<String>, Death> {
        let losses = match step {
            step if may_clear(step) => self.catch_up()?,
            Step::Write(_) | Step::Workload(_) if !self.keeps => self.catch_up()?,
            Step::Workload(_) => self.compare()?,
            _ => Vec::new(),
        };
        // What is read from now on may be of events that the step redefines.
        self.tapes.iter_mut().try_for_each(|tape| tape.writer.mark()).map_err(Death::Lab)?;
        Ok(losses)
    }

    /// Reads the formats of events that the step may have defined.
    pub(super) fn after_step(&mut self, step: &Step) -> Result<(), Death> {
        if let Step::Write(write) = step {
            // An event can be injected without being enabled.
            self.injected.extend(injected(write.write.as_str()));
        }
        match step {
            Step::Load(_) | Step::LoadModule(_) | Step::Unload(_) | Step::Shell(_) => {
                self.learn_formats(true)
            }
            // A program may define user events.
            Step::Write(_) | Step::Workload(_) => self.learn_formats(false),
            _ => Ok(()),
        }
    }

    /// Reads the ring buffers.
    pub(super) fn drain(&mut self, drain: Drain) -> Result<(), Death> {
        if self.keeps && drain == Drain::Some {
            return Ok(());
        }
        self.tapes.iter_mut().try_for_each(|tape| tape.drain(&mut self.link, drain))
    }

    /// Reads what the ring buffers hold, and compares the counters before and after. If it is little, that is one
    /// round trip.
    fn catch_up(&mut self) -> Result<Vec<String>, Death> {
        let counters = self.counter_requests();
        let drains = self.tapes.iter().map(|tape| tape.request(Drain::Present));
        let requests = counters.iter().cloned().chain(drains).chain(counters.iter().cloned());
        let mut replies = self.link.call_all(&Vec::from_iter(requests))?;
        let after = replies.split_off(counters.len() + self.tapes.len());
        let drained = replies.split_off(counters.len());
        let mut losses = self.compare_with(replies)?;
        let mut is_all = true;
        for (tape, reply) in self.tapes.iter_mut().zip(drained) {
            if tape.take(reply, Drain::Present, 1)? {
                is_all = false;
                tape.drain(&mut self.link, Drain::Present)?;
            }
        }
        losses.extend(if is_all { self.compare_with(after)? } else { self.compare()? });
        Ok(losses)
    }

    /// Compares the kernel's counters with what was read. Says what was lost since the last time.
    fn compare(&mut self) -> Result<Vec<String>, Death> {
        let replies = self.link.call_all(&self.counter_requests())?;
        self.compare_with(replies)
    }

    /// The same with the contents of the counters' files.
    fn compare_with(&mut self, replies: Vec<Reply>) -> Result<Vec<String>, Death> {
        let counters = self.counters(replies)?;
        let mut losses = Vec::new();
        for (tape, (tracer, stats)) in self.tapes.iter_mut().zip(counters) {
            let compared = !exchanges_buffers(&tracer);
            let of = tape.instance.as_ref().map_or_else(String::new, |name| format!(" of `{name}`"));
            for (cpu, (ledger, stats)) in tape.ledgers.iter_mut().zip(stats).enumerate() {
                if compared {
                    losses.extend(ledger.compare(stats).map(|lost| format!("CPU {cpu}{of}: {lost}")));
                } else {
                    ledger.follow(stats);
                }
            }
        }
        Ok(losses)
    }

    /// Returns the files of the tracer and of each CPU's counters, for each instance.
    fn counter_files(&self) -> Vec<Vec<String>> {
        let cpus = self.link.cpus();
        let files = |tape: &Tape| {
            let stats = (0..cpus).map(|cpu| format!("per_cpu/cpu{cpu}/stats"));
            let files = iter::once("current_tracer".to_owned()).chain(stats);
            files.map(|file| tape.below(&file)).collect::<Vec<_>>()
        };
        self.tapes.iter().map(files).collect()
    }

    /// Returns the requests to read these files.
    fn counter_requests(&self) -> Vec<Request> {
        self.counter_files().concat().iter().map(|path| read(path)).collect()
    }

    /// Returns the counters of each CPU of each instance, and its tracer, from the contents of these files.
    fn counters(&self, replies: Vec<Reply>) -> Result<Vec<(String, Vec<CpuStats>)>, Death> {
        let files = self.counter_files();
        let mut texts = texts(&files.concat(), replies);
        let mut read = |path: &String| {
            texts.remove(path).ok_or_else(|| Death::AgentLost(format!("cannot read `{path}`")))
        };
        let mut counters = Vec::new();
        for files in &files {
            let mut texts = files.iter().map(&mut read);
            let tracer = texts.next().transpose()?.unwrap_or_default();
            let stats = texts.map(|text| Ok(CpuStats::parse(&text?))).collect::<Result<_, Death>>()?;
            counters.push((tracer.trim_end().to_owned(), stats));
        }
        Ok(counters)
    }

    /// Stops tracing.
    pub(super) fn pause(&mut self) -> Result<(), Death> {
        self.each_instance(|instance| Request::StopTrace { instance }, "tracing to stop")
    }

    /// Stops tracing, reads the rest of the ring buffers, and closes the tapes. Says what they lack.
    pub(super) fn stop(&mut self, symbols: &Symbols<'_>) -> Result<Vec<String>, Death> {
        self.pause()?;
        self.drain(Drain::All)?;
        let mut losses = self.compare()?;
        self.learn_formats(true)?;
        if self.tapes.iter().any(|tape| tape.writer.is_cut()) {
            losses
                .push(format!("the trace is larger than {} MiB: later events are missing", TRACE_MAX >> 20));
        }
        for tape in std::mem::take(&mut self.tapes) {
            let files = tape.tracefs_files(&mut self.link, &self.formats, symbols.kallsyms()?)?;
            tape.writer.finish(&files).map_err(Death::Lab)?;
        }
        Ok(losses)
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

    fn request(&self, drain: Drain) -> Request {
        let max = if drain == Drain::All { CHUNK } else { SIP };
        Request::DrainTrace { instance: self.directory(), max: max as u32 }
    }

    fn drain(&mut self, link: &mut Link<'_>, drain: Drain) -> Result<(), Death> {
        let request = self.request(drain);
        let mut drains = 1;
        while self.take(link.call(&request)?, drain, drains)? {
            drains += 1;
        }
        Ok(())
    }

    /// Stores the pages of a reply, the last of `drains` in a row. Returns whether to read on.
    fn take(&mut self, reply: Reply, drain: Drain, drains: usize) -> Result<bool, Death> {
        let (cpus, more) = match reply {
            Reply::Pages { cpus, more } => (cpus, more),
            other => return Err(unexpected("pages of the ring buffer", &other)),
        };
        let (mut taken, mut used) = (0, 0);
        for pages in cpus {
            taken += pages.data.len();
            let appended = self.writer.append(pages.cpu, &pages.data).map_err(bad_pages)?;
            used += appended.used;
            if let Some(ledger) = self.ledgers.get_mut(pages.cpu as usize) {
                ledger.store(appended.events);
            }
            if let Some(stored) = self.stored.get_mut(pages.cpu as usize) {
                *stored += appended.events;
            }
        }
        // A reader that has caught up with the writer gets pages with a few events each, which
        // fills the file with nothing and keeps the guest from its work.
        let tired = used < taken / 2 || drains >= DRAINS;
        let enough = match drain {
            Drain::Some => tired,
            Drain::Present => tired && !self.ledgers.iter().any(Ledger::lacks),
            Drain::All => false,
        };
        Ok(more && !enough)
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
        let saved_cmdlines = link.text("saved_cmdlines")?;
        let saved_cmdlines = link.processes.with_names_of(&saved_cmdlines);
        let stats = (0..).zip(&self.ledgers).map(|(cpu, ledger)| (cpu, ledger.sums().to_string())).collect();
        Ok(TracefsFiles {
            header_page: self.header_page.clone(),
            header_event: link.text("events/header_event")?,
            ftrace_formats,
            event_formats: formats.texts(),
            kallsyms,
            printk_formats: link.text("printk_formats")?,
            saved_cmdlines,
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
