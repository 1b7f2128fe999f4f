//! `cargo xtask lab crash`

use crate::{exit, root, setup::Setup};
use anyhow::{Context, Result, bail};
use clap::Args;
use lab::{
    Lab,
    dump::{self, FoundDump, Reader, RingBuffer, Section},
    host::drgn::Drgn,
    words::{called, printable},
};
use std::{
    collections::VecDeque,
    io::{IsTerminal, stdin},
    ops::ControlFlow,
    path::PathBuf,
};
use trace::{Item, Trace};

/// The file next to a dump to which the events of its ring buffer are written.
const LAST_TRACE: &str = "vmcore.trace.dat";

/// Open the vmcore of a panicked kernel: print a post-mortem, then start drgn
///
/// Prints the panic, the backtrace of the panicked task with files and lines, the modules, and the last
/// trace events in the ring buffer, then starts drgn on the terminal.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab crash results/latest/6.12/crash/panic-backtrace\n  \
    cargo xtask lab crash results/latest --batch --events 100")]
pub(crate) struct Crash {
    /// Directory of a scenario with a vmcore, or of a run in which one scenario has one
    result: PathBuf,
    /// Only print, do not start drgn; implied if stdin is not a terminal
    #[arg(long)]
    batch: bool,
    /// Number of trace events to print, the last ones
    #[arg(long, value_name = "N", default_value_t = 20)]
    events: usize,
    #[command(flatten)]
    setup: Setup,
}

impl Crash {
    pub(crate) fn run(self) -> Result<u8> {
        let lab = Lab::open(root())?;
        let found = dump::find(&lab.cache, &self.result)?;
        let drgn = match Reader::of(Drgn::obtain(&lab.cache, &lab.progress)) {
            Reader::Drgn(drgn) => drgn,
            Reader::Crash(no_drgn) => {
                lab.progress.line(format!("{no_drgn}\nusing crash in a guest instead"));
                return self.by_crash(&self.setup.ensure_for_crash()?, &found);
            }
        };
        self.print(&found, &drgn)?;
        if !self.batch && stdin().is_terminal() {
            let status = found.dump.explore(&drgn, &lab.cache.directory("drgn-history")?)?;
            if !status.success() {
                bail!("drgn ended with {status}");
            }
        }
        Ok(exit::SUCCESS)
    }

    /// Like [`Crash::print`], but by crash in a guest.
    fn by_crash(&self, lab: &Lab, found: &FoundDump) -> Result<u8> {
        let said = dump::by_crash(lab, found)?;
        println!("{}", printable(said.answers.trim_end()));
        self.print_trace(found, Some(&said.trace))?;
        println!("vmcore: {}", found.dump.vmcore.display());
        Ok(exit::SUCCESS)
    }

    fn print(&self, found: &FoundDump, drgn: &Drgn) -> Result<()> {
        let post_mortem = found.dump.post_mortem(drgn, true, &found.build.roots())?;
        print!("{}", printable(&post_mortem));
        self.print_trace(found, post_mortem.trace.as_ref())?;
        println!("vmcore: {}", found.dump.vmcore.display());
        Ok(())
    }

    fn print_trace(&self, found: &FoundDump, trace: Option<&Section<RingBuffer>>) -> Result<()> {
        match trace {
            Some(Section::Found(ring_buffer)) if ring_buffer.is_empty() => {
                println!("the ring buffer is empty");
            }
            Some(Section::Found(ring_buffer)) => self.print_events(found, ring_buffer)?,
            Some(Section::Missing(reason)) => println!("cannot read the ring buffer: {}", printable(reason)),
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
                    last.push_back(printable(trace.display(&event)));
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        println!("the last {} of {count} events in the ring buffer:", last.len());
        last.iter().for_each(|line| println!("{line}"));
        println!("all events: {} {}", called("cargo xtask lab trace"), path.display());
        Ok(())
    }
}
