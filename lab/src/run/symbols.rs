//! Reads the functions of a kernel from a guest, once, if its packages do not list them.

use crate::{
    guest::Guest,
    kernel::Kernel,
    machine::{Death, Machine, Snapshots, machine_spec},
    progress::Progress,
};
use anyhow::{Context, Result, bail};
use fs_err as fs;
use protocol::{ChildState, Output, Reply, Request, Stdin};
use std::{path::Path, time::Duration};

/// The maximum size of /proc/kallsyms, in bytes.
const LIMIT: usize = 64 << 20;

/// The size of the pieces in which the program is pushed, in bytes.
const CHUNK: usize = 512 << 10;

/// The maximum output that the guest buffers until it is taken, in bytes.
const UNTAKEN: u32 = 256 << 10;

/// The time limit for a reply of the agent, and how long it waits in it for output of the program.
const PATIENCE: Duration = Duration::from_secs(60);
const LISTEN_MILLIS: u32 = 1000;

/// The workload that copies a file to its stdout, its path in the guest, and its source in a checkout.
const CAT: (&str, &str) = ("cat", "/workloads/cat");
pub(crate) const CAT_SOURCE: &str = "guest/workloads/cat.c";

/// Reads the kernel's symbols from a guest, unless they are known. A guest that does not boot is only a
/// warning here; the scenarios that need one report the error.
pub(super) fn learn(kernel: &Kernel, guest: &Guest, snapshots: &Snapshots, progress: &Progress) {
    if kernel.knows_functions() {
        return;
    }
    let _task = progress.task(format!("reading the symbols of {} in a guest", kernel.name), None);
    if let Err(error) = ask(kernel, guest, snapshots) {
        progress.line(format!("warning: cannot determine the functions of {}: {error:#}", kernel.name));
    }
}

fn ask(kernel: &Kernel, guest: &Guest, snapshots: &Snapshots) -> Result<()> {
    let place =
        tempfile::tempdir_in(kernel.cache().directory("symbols")?).context("cannot make a directory")?;
    let program = guest.workloads.get(CAT.0).context("there is no workload `cat`")?;
    let mut machine = Machine::pristine(&machine_spec(kernel, guest)?, snapshots, place.path())?;
    push(&mut machine, program)?;
    let kallsyms = read(&mut machine, "/proc/kallsyms")?;
    kernel.learn_functions(&String::from_utf8_lossy(&kallsyms))
}

fn push(machine: &mut Machine, program: &Path) -> Result<()> {
    let data = fs::read(program)?;
    let request = |(index, chunk): (usize, &[u8])| Request::Push {
        path: CAT.1.to_owned(),
        mode: 0o755,
        offset: (index * CHUNK) as u64,
        data: chunk.to_vec(),
    };
    let requests: Vec<_> = data.chunks(CHUNK).enumerate().map(request).collect();
    match machine.call_all(&requests, PATIENCE)?.into_iter().find(|reply| *reply != Reply::Done) {
        Some(reply) => Err(unexpected(&reply)),
        None => Ok(()),
    }
}

/// Reads a file of any length; the agent itself reads only the start of a long one.
fn read(machine: &mut Machine, path: &str) -> Result<Vec<u8>> {
    let argv = [CAT.1, path].map(str::to_owned).into();
    // With an open stdin, the program blocks until its output was taken.
    let spawn = Request::Spawn { argv, env: Vec::new(), stdin: Stdin::Open, output_max: UNTAKEN };
    let child = match machine.call(&spawn, PATIENCE)? {
        Reply::Started(child) => child,
        other => return Err(unexpected(&other)),
    };
    let ask = [
        Request::Listen { child, milliseconds: LISTEN_MILLIS },
        Request::Take { child },
        Request::Wait { child, milliseconds: 0 },
    ];
    let mut text = Vec::new();
    let mut take = |output: Output| {
        text.extend(output.stdout);
        if text.len() > LIMIT {
            bail!("`{path}` is longer than {LIMIT} bytes");
        }
        Ok(())
    };
    loop {
        for reply in machine.call_all(&ask, PATIENCE)? {
            match reply {
                Reply::Done | Reply::Child(ChildState::Running) => {}
                Reply::Said(output) => take(output)?,
                Reply::Child(ChildState::Exited(0, output)) => {
                    take(output)?;
                    return Ok(text);
                }
                other => return Err(unexpected(&other)),
            }
        }
    }
}

fn unexpected(reply: &Reply) -> anyhow::Error {
    let mut text = format!("{reply:?}");
    text.truncate(text.floor_char_boundary(80));
    Death::AgentLost(format!("unexpected reply while reading a file: {text}")).into()
}
