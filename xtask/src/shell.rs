//! `cargo xtask lab shell`

use crate::{complete, exit, results, root, setup::Setup};
use anyhow::Result;
use clap::Args;
use lab::{
    host::prerequisites::Need,
    kernel,
    live::{Left, Live, Wish, shell},
    progress::Progress,
    scenario::WantedUserland,
};
use std::{
    io::{IsTerminal, stdin},
    path::PathBuf,
};

/// A shell in a guest of your own, with tracefs, workloads and modules at hand
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab shell                        a pristine machine with busybox, at once\n  \
    cargo xtask lab shell --userland debian      a Debian machine with bash, strace, trace-cmd and crash\n  \
    cargo xtask lab shell --load ftracehook      with a module that is loaded already\n  \
    echo 'uname -r' | cargo xtask lab shell      commands from a pipe, or from a file\n\n\
    In the guest, for instance:\n  \
    echo function_graph > current_tracer; eventfd 1 2 4; head trace\n  \
    insmod /modules/ftracehook.ko; echo '+mine symbol=vfs_write' > /sys/kernel/debug/ftracehook/control\n\n\
    `exit` or Ctrl-D leaves, Ctrl-] leaves at once, and nothing runs on. Of a guest that dies, the files are \
    kept in results/<time>-<kernel>/live/.\n\n\
    Exit codes: 0 the shell was left, whatever its own status; 1 the guest died, or the commands were not \
    from a terminal and the shell's status was not 0; 2 usage; 3 the lab itself could not do its work.")]
pub(crate) struct Shell {
    #[command(flatten)]
    machine: Chosen,
    /// A whole Debian userland instead of busybox: a file of guest/userland/, such as debian
    #[arg(long, value_name = "NAME", value_parser = WantedUserland::named)]
    userland: Option<WantedUserland>,
    #[command(flatten)]
    setup: Setup,
}

/// The machine that is put under a person's hands.
#[derive(Args)]
pub(crate) struct Chosen {
    /// A kernel of kernels/*.yaml
    #[arg(long, value_name = "NAME", default_value = kernel::DEFAULT, add = complete::kernels())]
    kernel: String,
    /// Build the kernel from this tree instead of its own source
    #[arg(long, value_name = "PATH")]
    kernel_tree: Option<PathBuf>,
    /// Load this module first: one of guest/modules, or of the kernel; may be given several times
    #[arg(long, value_name = "MODULE")]
    load: Vec<String>,
    /// Where the files of a guest that dies go [default: results/]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
}

impl Chosen {
    pub(crate) fn wish(self, userland: Option<WantedUserland>, tools: bool) -> Wish {
        let results = self.results.unwrap_or_else(results);
        let Chosen { kernel, kernel_tree, load, .. } = self;
        Wish { root: root().to_owned(), kernel, kernel_tree, userland, tools, load, results }
    }
}

impl Shell {
    pub(crate) fn run(self) -> Result<u8> {
        let progress = Progress::new();
        let cache = self.setup.ensure(Need::Run, &progress)?;
        let mut live = Live::start(&cache, &self.machine.wish(self.userland, true), &progress)?;
        let left = match shell(&mut live) {
            Ok(Left::Died(death)) => {
                eprintln!("{}", live.end(Some(&death))?);
                // The lab's own trouble is no fault of the guest's.
                return Ok(if death.is_labs_own() { exit::LAB } else { exit::FAILED });
            }
            left => left,
        };
        live.end(None)?;
        Ok(match left? {
            Left::Exited(status) if status != 0 && !stdin().is_terminal() => exit::FAILED,
            Left::Exited(_) | Left::Key | Left::Died(_) => exit::SUCCESS,
        })
    }
}
