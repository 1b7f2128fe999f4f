//! `cargo xtask lab shell`

use crate::{complete, exit, results, setup::Setup};
use anyhow::Result;
use clap::Args;
use lab::{
    host::prerequisites::Need,
    kernel,
    live::{LiveGuest, LiveSpec, ShellEnd, shell},
    scenario::UserlandSpec,
    words::printable,
};
use std::{
    io::{IsTerminal, stdin},
    path::PathBuf,
};

/// Open a shell in a guest, with tracefs, workloads and modules
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab shell                        a pristine guest with busybox\n  \
    cargo xtask lab shell --userland debian      a Debian guest with bash, strace, trace-cmd and crash\n  \
    cargo xtask lab shell --load ftracehook      with a module already loaded\n  \
    echo 'uname -r' | cargo xtask lab shell      commands from a pipe, or from a file\n\n\
    In the guest, for example:\n  \
    echo function_graph > current_tracer; eventfd 1 2 4; head trace\n  \
    insmod /modules/ftracehook.ko; echo '+mine symbol=vfs_write' > /sys/kernel/debug/ftracehook/control\n\n\
    `exit` or Ctrl-D leaves, Ctrl-] leaves at once, and the guest is discarded. If the guest dies, its files are \
    kept in results/<time>-<kernel>/live/.\n\n\
    Exit codes: 0 the shell exited, whatever its status; 1 the guest died, or the commands did not come from \
    a terminal and the shell's status was not 0; 2 usage error; 3 the lab itself failed.")]
pub(crate) struct Shell {
    #[command(flatten)]
    machine: MachineArgs,
    /// Use a Debian userland instead of busybox: the name of a file of guest/userland/, such as debian
    #[arg(long, value_name = "NAME", value_parser = UserlandSpec::named)]
    userland: Option<UserlandSpec>,
    #[command(flatten)]
    setup: Setup,
}

/// The machine of an interactive session.
#[derive(Args)]
pub(crate) struct MachineArgs {
    /// A kernel of kernels/*.yaml
    #[arg(long, value_name = "NAME", default_value = kernel::DEFAULT, add = complete::kernels())]
    kernel: String,
    /// Build the kernel from this tree instead of its own source
    #[arg(long, value_name = "PATH")]
    kernel_tree: Option<PathBuf>,
    /// Load this module first: one of guest/modules, or of the kernel (repeatable)
    #[arg(long, value_name = "MODULE")]
    load: Vec<String>,
    /// Directory for the files of a guest that dies [default: results/]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
}

impl MachineArgs {
    pub(crate) fn wish(self, userland: Option<UserlandSpec>, tools: bool) -> LiveSpec {
        let results = self.results.unwrap_or_else(results);
        let MachineArgs { kernel, kernel_tree, load, .. } = self;
        LiveSpec { kernel, kernel_tree, userland, tools, load, results }
    }
}

impl Shell {
    pub(crate) fn run(self) -> Result<u8> {
        let lab = self.setup.ensure(Need::Run)?;
        let mut live = LiveGuest::start(&lab, &self.machine.wish(self.userland, true))?;
        let left = match shell(&mut live) {
            Ok(ShellEnd::Died(death)) => {
                eprintln!("{}", printable(live.end(Some(&death))?));
                // A failure of the lab is not one of the guest.
                return Ok(if death.is_labs_own() { exit::LAB } else { exit::FAILED });
            }
            left => left,
        };
        live.end(None)?;
        Ok(match left? {
            ShellEnd::Exited(status) if status != 0 && !stdin().is_terminal() => exit::FAILED,
            ShellEnd::Exited(_) | ShellEnd::Key | ShellEnd::Died(_) => exit::SUCCESS,
        })
    }
}
