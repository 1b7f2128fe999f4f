//! `cargo xtask lab gdb`

use crate::{exit, setup::Setup, shell::Chosen};
use anyhow::Result;
use clap::Args;
use lab::{
    host::prerequisites::Need,
    kernel::GDB,
    live::{Live, Session, debug},
    progress::Progress,
    scenario::CommandLine,
};
use std::io::{IsTerminal, stdin};

/// gdb on the kernel of a guest of your own, with the symbols of its modules
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab gdb --run 'eventfd 1 2 4'\n    \
        (gdb) break eventfd_write\n    \
        (gdb) continue              the workload begins, and stops at its first write\n    \
        (gdb) backtrace\n  \
    cargo xtask lab gdb --load ftracehook -- -ex 'info scope hook_callback'\n  \
    cargo xtask lab gdb -- -batch -ex 'print jiffies' -ex 'info threads'\n\n\
    The guest is stopped until gdb lets it go on, and is gone when gdb is left.\n\n\
    Exit codes: 0 gdb was left; 1 it was given its commands without a terminal, and its status was not 0; 2 usage; \
    3 the lab itself could not do its work.")]
pub(crate) struct Gdb {
    #[command(flatten)]
    machine: Chosen,
    /// A workload and its arguments, which begins when gdb lets the guest go on
    #[arg(long, value_name = "WORKLOAD", value_parser = CommandLine::parse)]
    run: Option<CommandLine>,
    /// gdb's own arguments
    #[arg(last = true, value_name = "GDB ARGUMENTS")]
    arguments: Vec<String>,
    #[command(flatten)]
    setup: Setup,
}

impl Gdb {
    pub(crate) fn run(self) -> Result<u8> {
        let progress = Progress::new();
        let cache = self.setup.ensure_beside(Need::Run, &[GDB], &progress)?;
        let mut live = Live::start(&cache, &self.machine.wish(None, false), &progress)?;
        let ended = debug(&mut live, &Session { workload: self.run, arguments: self.arguments });
        live.end(None)?;
        let good = ended? == Some(0) || stdin().is_terminal();
        Ok(if good { exit::SUCCESS } else { exit::FAILED })
    }
}
