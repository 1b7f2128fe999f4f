//! The tapes: raw pages of the guest's ring buffers, written to a `trace.dat` per tracing instance with
//! everything that is needed to decode them.

use super::{
    clearing::{exchanges_buffers, may_clear, stay},
    formats::{Formats, Renumbered, injected},
    ledger::Ledger,
    link::{CHUNK, Link, unexpected},
    symbols::Symbols,
};
use crate::{
    machine::Death,
    plan::{below, directory},
    results::trace_of,
    scenario::{Scenario, Step, TraceSetup},
};
use protocol::{Reply, Request};
use std::{
    collections::{BTreeMap, BTreeSet},
    io, iter, mem,
    path::Path,
};
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
    /// Whether the tracer exchanges the buffer for another one, so that its counters do not say what it holds.
    exchanged: bool,
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
    /// Whether a step may have defined events since the formats were read, and if so, whether it may have loaded or
    /// unloaded modules.
    redefined: Option<bool>,
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
            redefined: None,
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
            let (ledgers, stored) = (Vec::new(), Vec::new());
            self.tapes.push(Tape { instance, writer, header_page, ledgers, stored, exchanged: false });
        }
        let texts = self.read_files(true)?;
        let counters = self.counters(&texts)?;
        for (tape, (_, stats)) in self.tapes.iter_mut().zip(counters) {
            tape.stored = vec![0; stats.len()];
            tape.ledgers = stats.into_iter().map(Ledger::new).collect();
        }
        self.learn_formats(&texts, false)?;
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

    /// Reads the counters of all tracing instances and, if `lists`, which events are enabled or defined.
    fn read_files(&mut self, lists: bool) -> Result<BTreeMap<String, String>, Death> {
        let mut files = self.counter_files().concat();
        if lists {
            files.extend(self.tapes.iter().map(|tape| tape.below("set_event")).chain([DYNAMIC.to_owned()]));
        }
        self.link.files(&files)
    }

    /// Reads the formats of events that were enabled or redefined since the last call, by the contents of
    /// these files; `modules` may have been loaded or unloaded.
    fn learn_formats(&mut self, texts: &BTreeMap<String, String>, modules: bool) -> Result<(), Death> {
        let mut enabled = self.injected.clone();
        for tape in &self.tapes {
            let text = content(texts, &tape.below("set_event"))?;
            enabled.extend(text.lines().map(str::to_owned));
        }
        // Not every kernel has it.
        let dynamic = texts.get(DYNAMIC).map(String::as_str).unwrap_or_default();
        for Renumbered { guest, before, now } in
            self.formats.learn(&mut self.link, &enabled, dynamic, modules)?
        {
            for tape in &mut self.tapes {
                tape.writer.renumber(guest, before, now).map_err(Death::Lab)?;
            }
        }
        Ok(())
    }

    /// Reads the formats of events that earlier steps may have defined, and the ring buffers if this one may clear
    /// or fill them. Says what was lost in earlier steps.
    pub(super) fn before_step(&mut self, step: &Step) -> Result<Vec<String>, Death> {
        if !may_clear(step) && !matches!(step, Step::Write(_) | Step::Workload(_)) {
            return Ok(Vec::new());
        }
        let redefined = self.redefined.take();
        let texts = self.read_files(redefined.is_some())?;
        if let Some(modules) = redefined {
            self.learn_formats(&texts, modules)?;
        }
        let mut losses = self.compare_with(&texts)?;
        if may_clear(step) || !self.keeps {
            losses.extend(self.catch_up()?);
        }
        // What is read from now on may be of events that the step redefines.
        self.tapes.iter_mut().try_for_each(|tape| tape.writer.mark()).map_err(Death::Lab)?;
        Ok(losses)
    }

    /// Notes what the step may have defined.
    pub(super) fn after_step(&mut self, step: &Step) {
        if let Step::Write(write) = step {
            // An event can be injected without being enabled.
            self.injected.extend(injected(write.write.as_str()));
        }
        let redefined = match step {
            Step::Load(_) | Step::LoadModule(_) | Step::Unload(_) | Step::Shell(_) => Some(true),
            // A program may define user events.
            Step::Write(_) | Step::Workload(_) => Some(false),
            _ => None,
        };
        self.redefined = self.redefined.max(redefined);
    }

    /// Reads the ring buffers.
    pub(super) fn drain(&mut self, drain: Drain) -> Result<(), Death> {
        if self.keeps && drain == Drain::Some {
            return Ok(());
        }
        self.tapes.iter_mut().try_for_each(|tape| tape.drain(&mut self.link, drain))
    }

    /// Reads what the ring buffers held when their counters were compared, and compares them again.
    fn catch_up(&mut self) -> Result<Vec<String>, Death> {
        let mut behind = self.tapes.iter_mut().filter(|tape| tape.is_behind()).peekable();
        if behind.peek().is_none() {
            return Ok(Vec::new());
        }
        behind.try_for_each(|tape| tape.drain(&mut self.link, Drain::Present))?;
        self.compare()
    }

    /// Compares the kernel's counters with what was read. Says what was lost since the last time.
    fn compare(&mut self) -> Result<Vec<String>, Death> {
        let texts = self.read_files(false)?;
        self.compare_with(&texts)
    }

    /// The same with the contents of the counters' files.
    fn compare_with(&mut self, texts: &BTreeMap<String, String>) -> Result<Vec<String>, Death> {
        let counters = self.counters(texts)?;
        let mut losses = Vec::new();
        for (tape, (tracer, stats)) in self.tapes.iter_mut().zip(counters) {
            tape.exchanged = exchanges_buffers(&tracer);
            let of = tape.instance.as_ref().map_or_else(String::new, |name| format!(" of `{name}`"));
            for (cpu, (ledger, stats)) in tape.ledgers.iter_mut().zip(stats).enumerate() {
                if tape.exchanged {
                    ledger.follow(stats);
                } else {
                    losses.extend(ledger.compare(stats).map(|lost| format!("CPU {cpu}{of}: {lost}")));
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

    /// Returns the counters of each CPU of each instance, and its tracer, from the contents of these files.
    fn counters(&self, texts: &BTreeMap<String, String>) -> Result<Vec<(String, Vec<CpuStats>)>, Death> {
        let mut counters = Vec::new();
        for files in &self.counter_files() {
            let mut texts = files.iter().map(|path| content(texts, path));
            let tracer = texts.next().transpose()?.unwrap_or_default();
            let stats = texts.map(|text| Ok(CpuStats::parse(text?))).collect::<Result<_, Death>>()?;
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
        let texts = self.read_files(true)?;
        let mut losses = self.compare_with(&texts)?;
        self.learn_formats(&texts, true)?;
        if self.tapes.iter().any(|tape| tape.writer.is_cut()) {
            losses
                .push(format!("the trace is larger than {} MiB: later events are missing", TRACE_MAX >> 20));
        }
        for tape in mem::take(&mut self.tapes) {
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

    /// Returns whether the ring buffer held events, or may have, when its counters were compared.
    fn is_behind(&self) -> bool {
        self.exchanged || self.ledgers.iter().any(Ledger::lacks)
    }

    fn drain(&mut self, link: &mut Link<'_>, drain: Drain) -> Result<(), Death> {
        let max = if drain == Drain::All { CHUNK } else { SIP };
        let request = Request::DrainTrace { instance: self.directory(), max: max as u32 };
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

/// Returns the content of a file that every kernel has.
fn content<'a>(texts: &'a BTreeMap<String, String>, path: &str) -> Result<&'a str, Death> {
    texts.get(path).map(String::as_str).ok_or_else(|| Death::AgentLost(format!("cannot read `{path}`")))
}

/// Converts the error of pages that cannot be stored: it is the disk's fault or the guest's.
fn bad_pages(error: anyhow::Error) -> Death {
    if error.chain().any(|cause| cause.is::<io::Error>()) {
        Death::Lab(error)
    } else {
        Death::AgentLost(format!("{error:#}"))
    }
}
