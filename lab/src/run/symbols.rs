//! The functions of a kernel whose packages do not tell them: a guest of it is asked, once.

use super::machine_spec;
use crate::{
    cache::Cache,
    guest::Guest,
    kernel::Kernel,
    machine::{Death, Machine, Snapshots},
    progress::Progress,
};
use anyhow::{Context, Result, bail};
use protocol::{ChildState, Output, Reply, Request, Stdin};
use std::{fs, path::Path, time::Duration};

/// No /proc/kallsyms is longer, in bytes.
const LIMIT: usize = 64 << 20;

/// How much of the program is pushed at a time, in bytes.
const CHUNK: usize = 512 << 10;

/// How much the guest keeps of what was not taken yet, in bytes.
const UNTAKEN: u32 = 256 << 10;

/// How long the agent may take for one answer, and for how much of it it waits for the program.
const PATIENCE: Duration = Duration::from_secs(60);
const LISTEN_MILLIS: u32 = 1000;

/// The workload that copies a file to its stdout, where it goes, and its source in a checkout.
const CAT: (&str, &str) = ("cat", "/workloads/cat");
pub(crate) const CAT_SOURCE: &str = "guest/workloads/cat.c";

/// Asks a guest where the kernel's functions are, unless that is known. A guest that does not boot is
/// told of where a scenario needs one.
pub(super) fn learn(kernel: &Kernel, guest: &Guest, snapshots: &Snapshots, progress: &Progress) {
    if kernel.knows_functions() {
        return;
    }
    let _task = progress.task(format!("asking {} for its symbols", kernel.name), None);
    if let Err(error) = kernel.cache().and_then(|cache| ask(kernel, guest, snapshots, &cache)) {
        progress.line(format!("warning: cannot tell the functions of {}: {error:#}", kernel.name));
    }
}

fn ask(kernel: &Kernel, guest: &Guest, snapshots: &Snapshots, cache: &Cache) -> Result<()> {
    let place = tempfile::tempdir_in(cache.directory("symbols")?).context("cannot make a directory")?;
    let program = guest.workloads.get(CAT.0).context("there is no workload `cat`")?;
    let mut machine = Machine::pristine(&machine_spec(kernel, guest)?, snapshots, place.path())?;
    push(&mut machine, program)?;
    let kallsyms = read(&mut machine, "/proc/kallsyms")?;
    kernel.learn_functions(&String::from_utf8_lossy(&kallsyms))
}

fn push(machine: &mut Machine, program: &Path) -> Result<()> {
    let data = fs::read(program).with_context(|| format!("cannot read `{}`", program.display()))?;
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

/// A file of any length: the agent itself gives no more than the beginning of one.
fn read(machine: &mut Machine, path: &str) -> Result<Vec<u8>> {
    let argv = [CAT.1, path].map(str::to_owned).into();
    // What talks to somebody waits until what it wrote was taken.
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
    Death::AgentLost(format!("asked for a file, it answered {text}")).into()
}
