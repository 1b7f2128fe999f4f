//! Runs the crash utility on a dump in a guest, command by command.

use crate::{
    crash::{Agent, Answer, Session as Crash, command},
    host::process::tail,
    kernel::KernelVersion,
    machine::{ENVIRONMENT, Machine, SHARED, VMLINUX},
};
use anyhow::{Context, Error, Result, anyhow, bail};
use protocol::{Reply, Request, Stdin};
use std::time::{Duration, Instant};

/// The name of the dump among the shared files.
pub(super) const VMCORE: &str = "vmcore";

/// The time limit for all commands in total, on an emulated CPU.
const DEADLINE: Duration = Duration::from_secs(300);

/// The maximum number of bytes that crash may print for one command, and that the agent buffers.
const ANSWER_MAX: usize = 16 << 20;
const KEPT: u32 = 256 << 10;

/// The maximum number of last lines to show of a crash that exited.
const SHOWN: usize = 12;

/// A running crash.
pub(super) struct Session<'a> {
    guest: Guest<'a>,
    crash: Crash,
}

/// The machine that crash runs on, and when its time is up.
struct Guest<'a> {
    machine: &'a mut Machine,
    until: Instant,
}

impl Agent for Guest<'_> {
    type Error = Error;

    fn call(&mut self, request: &Request) -> Result<Reply> {
        let left = self.until.saturating_duration_since(Instant::now());
        self.machine.call(request, left).context("no answer from crash in its guest")
    }

    fn unexpected(&self, requested: &str, reply: &Reply) -> Error {
        anyhow!("asked for {requested}, the agent answered {reply:?}")
    }
}

impl<'a> Session<'a> {
    /// Starts crash in the guest on the shared files of this kernel.
    pub(super) fn start(machine: &'a mut Machine, kernel: &KernelVersion) -> Result<Session<'a>> {
        let until = Instant::now() + DEADLINE;
        let [vmlinux, vmcore] = [VMLINUX, VMCORE].map(|name| format!("{SHARED}/{name}"));
        let argv = command(kernel, &[&vmlinux, &vmcore]);
        let env = ENVIRONMENT.map(str::to_owned).into();
        let spawn = Request::Spawn { argv, env, stdin: Stdin::Open, output_max: KEPT };
        match machine.call(&spawn, DEADLINE)? {
            Reply::Started(child) => {
                Ok(Session { guest: Guest { machine, until }, crash: Crash::new(child) })
            }
            other => bail!("cannot start crash: {other:?}"),
        }
    }

    /// Returns the answer of crash to a command.
    pub(super) fn ask(&mut self, command: &str) -> Result<String> {
        match self.crash.ask(&mut self.guest, command, ANSWER_MAX)? {
            Answer::Text { text, truncated: false } => Ok(text),
            Answer::Text { .. } => bail!("crash printed more than {} MiB for `{command}`", ANSWER_MAX >> 20),
            Answer::Exited(text) => bail!("crash exited during `{command}`\n{}", tail(&text, SHOWN)),
            Answer::NotRunning => bail!("crash accepts no more commands"),
        }
    }
}
