//! `cargo xtask lab gdb`

use crate::{exit, setup::Setup, shell::MachineArgs};
use anyhow::Result;
use clap::Args;
use lab::{
    host::prerequisites::Need,
    kernel::GDB,
    live::{LiveGuest, Session, debug},
    scenario::CommandLine,
};
use std::io::{IsTerminal, stdin};

/// Debug the kernel of a guest with gdb, with the symbols of its modules
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab gdb --run 'eventfd 1 2 4'\n    \
        (gdb) break eventfd_write\n    \
        (gdb) continue              the workload starts, and stops at its first write\n    \
        (gdb) backtrace\n  \
    cargo xtask lab gdb --load ftracehook -- -ex 'info scope hook_callback'\n  \
    cargo xtask lab gdb -- -batch -ex 'print jiffies' -ex 'info threads'\n\n\
    The guest is stopped until gdb continues it, and is discarded when gdb exits.\n\n\
    Exit codes: 0 gdb exited; 1 gdb ran without a terminal, and its status was not 0; 2 usage error; \
    3 the lab itself failed.")]
pub(crate) struct Gdb {
    #[command(flatten)]
    machine: MachineArgs,
    /// A workload with its arguments, started when gdb continues the guest
    #[arg(long, value_name = "WORKLOAD", value_parser = CommandLine::parse)]
    run: Option<CommandLine>,
    /// Arguments of gdb
    #[arg(last = true, value_name = "GDB ARGUMENTS")]
    arguments: Vec<String>,
    #[command(flatten)]
    setup: Setup,
}

impl Gdb {
    pub(crate) fn run(self) -> Result<u8> {
        let lab = self.setup.ensure_beside(Need::Run, &[GDB])?;
        let mut live = LiveGuest::start(&lab, &self.machine.wish(None, false))?;
        let ended = debug(&mut live, &Session { workload: self.run, arguments: self.arguments });
        live.end(None)?;
        let good = ended? == Some(0) || stdin().is_terminal();
        Ok(if good { exit::SUCCESS } else { exit::FAILED })
    }
}
