//! `cargo xtask lab crash`

use crate::{exit, root};
use anyhow::{Context, Result, bail};
use clap::Args;
use lab::{
    cache::Cache,
    dump::{self, FoundDump, Part, Reader, RingBuffer},
    host::drgn::Drgn,
    progress::Progress,
    trace::{Item, Trace},
};
use std::{
    collections::VecDeque,
    io::{IsTerminal, stdin},
    ops::ControlFlow,
    path::PathBuf,
};

/// What was in the ring buffer of a dump, beside it.
const LAST_TRACE: &str = "vmcore.trace.dat";

/// Open the memory of a kernel that panicked: what it died of, and drgn's prompt
///
/// Prints the panic, the backtrace of the task that panicked with files and lines, the modules, and the
/// last trace events that were still in the ring buffer; then leaves the terminal to drgn.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab crash results/latest/6.12/crash/panic-backtrace\n  \
    cargo xtask lab crash results/latest --batch --events 100")]
pub(crate) struct Crash {
    /// The directory of a scenario with a vmcore, or a run's of which one scenario has one
    result: PathBuf,
    /// Only print; the same if stdin is no terminal
    #[arg(long)]
    batch: bool,
    /// How many of the last trace events are printed
    #[arg(long, value_name = "N", default_value_t = 20)]
    events: usize,
}

impl Crash {
    pub(crate) fn run(self) -> Result<u8> {
        let progress = Progress::new();
        let cache = Cache::open()?;
        let found = dump::find(&cache, &self.result)?;
        let drgn = match Reader::of(Drgn::obtain(&cache, &progress)) {
            Reader::Drgn(drgn) => drgn,
            Reader::Crash(no_drgn) => {
                progress.line(format!("{no_drgn}\nso crash looks at it, in a guest"));
                return self.by_crash(&cache, &found, &progress);
            }
        };
        self.print(&found, &drgn)?;
        if !self.batch && stdin().is_terminal() {
            let status = found.dump.explore(&drgn, &cache.directory("drgn-history")?)?;
            if !status.success() {
                bail!("drgn ended with {status}");
            }
        }
        Ok(exit::SUCCESS)
    }

    /// As [`Crash::print`], by crash in a guest.
    fn by_crash(&self, cache: &Cache, found: &FoundDump, progress: &Progress) -> Result<u8> {
        let said = dump::by_crash(cache, root(), found, progress)?;
        println!("{}", said.answers.trim_end());
        self.print_trace(found, Some(&said.trace))?;
        println!("memory: {}", found.dump.vmcore.display());
        Ok(exit::SUCCESS)
    }

    fn print(&self, found: &FoundDump, drgn: &Drgn) -> Result<()> {
        let post_mortem = found.dump.post_mortem(drgn, true, &found.build.roots())?;
        print!("{post_mortem}");
        self.print_trace(found, post_mortem.trace.as_ref())?;
        println!("memory: {}", found.dump.vmcore.display());
        Ok(())
    }

    fn print_trace(&self, found: &FoundDump, trace: Option<&Part<RingBuffer>>) -> Result<()> {
        match trace {
            Some(Part::Found(ring_buffer)) if ring_buffer.is_empty() => println!("the ring buffer is empty"),
            Some(Part::Found(ring_buffer)) => self.print_events(found, ring_buffer)?,
            Some(Part::Missing(reason)) => println!("the ring buffer cannot be read: {reason}"),
            None => {}
        }
        Ok(())
    }

    fn print_events(&self, found: &FoundDump, ring_buffer: &RingBuffer) -> Result<()> {
        let path = found.directory.join(LAST_TRACE);
        ring_buffer.write(&path, &found.build.functions()?).context("cannot read the ring buffer")?;
        let trace = Trace::open(&path)?;
        let mut last = VecDeque::with_capacity(self.events);
        let mut count = 0_u64;
        trace.for_each(|item| {
            if let Item::Event(event) = item {
                count += 1;
                if last.len() == self.events {
                    last.pop_front();
                }
                if self.events > 0 {
                    last.push_back(trace.display(&event));
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        println!("the last {} of {count} events in the ring buffer:", last.len());
        last.iter().for_each(|line| println!("{line}"));
        println!("all of them: cargo xtask lab trace {}", path.display());
        Ok(())
    }
}
