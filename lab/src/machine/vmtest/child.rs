//! The process that calls vmtest: a child of the lab, with an environment of its own.
//!
//! vmtest passes all of its environment variables to the guest, so the lab's would be in the memory of the
//! guest's processes, and in each vmcore. The child runs the same program again, which therefore calls
//! [`boot_if_child`] first, and reads its order from stdin. Its stdout is the guest's console, its stderr
//! QEMU's log.

use super::{super::LOG, AGENT, ENVIRONMENT, SHARED};
use crate::host::process::die_with_parent;
use ::vmtest::{Config, Target, VMConfig, Vmtest, output::Output};
use anyhow::{Context, Result};
use duct::Handle;
use fs_err::{self as fs, File};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::{
    env,
    io::{self, PipeWriter, Write as _, stdout},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    process,
    sync::mpsc::{Receiver, channel},
    thread,
};

/// The argument that marks the child. A program that does not call [`boot_if_child`] rejects it as an
/// unknown option.
const ARGUMENT: &str = "--boot-userland-for-parent";

/// The machine that vmtest boots.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) image: PathBuf,
    pub(super) cmdline: String,
    pub(super) tree: PathBuf,
    pub(super) shared: PathBuf,
    /// The script between vmtest and QEMU.
    pub(super) program: PathBuf,
    pub(super) cpus: u8,
    pub(super) memory: String,
    pub(super) arguments: Vec<String>,
}

/// Boots a userland and exits if the lab has started this process for that; otherwise returns. Each
/// program that boots userlands must call it before it parses its arguments.
pub fn boot_if_child() {
    if env::args_os().nth(1).is_none_or(|argument| argument != ARGUMENT) {
        return;
    }
    let code = match boot() {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("vmtest: {error:#}");
            1
        }
    };
    process::exit(code);
}

/// Starts a child, which waits for an [`Order`] on the pipe. It dies with this thread. `directory` is the
/// machine's.
pub(super) fn start(console: UnixStream, directory: &Path) -> Result<(Handle, PipeWriter)> {
    let log = directory.join(LOG);
    // vmtest, the script and QEMU all append to it.
    fs::write(&log, "")?;
    let log = File::options().append(true).open(log)?;
    let (order, writer) = io::pipe()?;
    let variables = ENVIRONMENT.iter().filter_map(|variable| variable.split_once('='));
    // The parent's copies of the descriptors are closed with this expression.
    // The child does not read the directory's name: it tells the user whose child it is.
    let expression = duct::cmd("/proc/self/exe", [ARGUMENT.as_ref(), directory.as_os_str()])
        .full_env(variables)
        .stdin_file(order)
        .stdout_file(OwnedFd::from(console))
        .stderr_file(log.into_file())
        .unchecked()
        .before_spawn(|command| {
            die_with_parent(command, Signal::KILL);
            Ok(())
        });
    let child = expression.start().context("cannot run this program again, for vmtest")?;
    Ok((child, writer))
}

fn boot() -> Result<()> {
    let order: Order = serde_json::from_reader(io::stdin()).context("there is no valid order on stdin")?;
    let shared = order.shared.clone();
    let vmtest = Vmtest::new(shared, Config { target: vec![target(order)] })?;
    let (updates, received) = channel();
    thread::scope(|scope| {
        scope.spawn(|| follow(received));
        // QEMU dies with this thread, which ends when QEMU does.
        vmtest.run_one(0, updates);
    });
    Ok(())
}

fn target(order: Order) -> Target {
    Target {
        name: "ftrace-lab".to_owned(),
        kernel: Some(order.image),
        kernel_args: Some(order.cmdline),
        rootfs: order.tree,
        arch: "aarch64".to_owned(),
        qemu_command: Some(order.program.to_string_lossy().into_owned()),
        command: format!("exec {SHARED}/{AGENT}"),
        vm: VMConfig {
            num_cpus: order.cpus,
            memory: order.memory,
            extra_args: order.arguments,
            ..VMConfig::default()
        },
        ..Target::default()
    }
}

/// Forwards vmtest's output until it ends: the console to stdout, errors to stderr.
fn follow(updates: Receiver<Output>) {
    for update in updates {
        let error = match update {
            Output::Boot(line) | Output::Setup(line) | Output::Command(line) => {
                // If no one listens any more, the machine is being shut down.
                let _ = writeln!(stdout(), "{line}");
                continue;
            }
            Output::BootEnd(Err(error)) | Output::SetupEnd(Err(error)) | Output::CommandEnd(Err(error)) => {
                format!("{error:#}")
            }
            Output::CommandEnd(Ok(status)) => format!("the agent ended with {status}"),
            _ => continue,
        };
        eprintln!("vmtest: {error}");
    }
}
