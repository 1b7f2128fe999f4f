//! The crash utility on a dump, in a guest: asked command by command.

use crate::{
    kernel::KernelVersion,
    machine::{Machine, SHARED},
    recording::{CrashMark, ENVIRONMENT, VMLINUX, crash_command},
};
use anyhow::{Context, Result, bail};
use protocol::{ChildState, Output, Reply, Request, Stdin};
use std::time::{Duration, Instant};

/// The dump among the files that are shared.
pub(super) const VMCORE: &str = "vmcore";

/// How long all questions may take together, on an emulated CPU.
const DEADLINE: Duration = Duration::from_secs(300);

/// The most bytes that crash may say to one question, and that the agent keeps between two looks.
const ANSWER_MAX: usize = 16 << 20;
const KEPT: u32 = 256 << 10;

/// How long the agent is asked at a time.
const WAIT_MILLIS: u32 = 50;

/// A crash that was started.
pub(super) struct Session<'a> {
    machine: &'a mut Machine,
    child: u32,
    marks: CrashMark,
    until: Instant,
}

impl<'a> Session<'a> {
    /// Starts crash on the files that are shared with the guest, of this kernel.
    pub(super) fn start(machine: &'a mut Machine, kernel: &KernelVersion) -> Result<Session<'a>> {
        let until = Instant::now() + DEADLINE;
        let [vmlinux, vmcore] = [VMLINUX, VMCORE].map(|name| format!("{SHARED}/{name}"));
        let argv = crash_command(kernel, &[&vmlinux, &vmcore]);
        let env = ENVIRONMENT.map(str::to_owned).into();
        let spawn = Request::Spawn { argv, env, stdin: Stdin::Open, output_max: KEPT };
        match machine.call(&spawn, DEADLINE)? {
            Reply::Started(child) => Ok(Session { machine, child, marks: CrashMark::default(), until }),
            other => bail!("cannot start crash: {other:?}"),
        }
    }

    fn call(&mut self, request: &Request) -> Result<Reply> {
        let left = self.until.saturating_duration_since(Instant::now());
        self.machine.call(request, left).context("crash in its guest gives no answer")
    }

    /// What crash says to a command.
    pub(super) fn ask(&mut self, command: &str) -> Result<String> {
        let (data, mark) = self.marks.behind(command);
        if let Reply::Errno { .. } = self.call(&Request::Feed { child: self.child, data })? {
            bail!("crash takes no more commands");
        }
        let mut text = String::new();
        let add = |text: &mut String, said: &Output| {
            text.push_str(&String::from_utf8_lossy(&said.stdout));
            text.push_str(&String::from_utf8_lossy(&said.stderr));
        };
        loop {
            if let Reply::Said(said) = self.call(&Request::Take { child: self.child })? {
                add(&mut text, &said);
            }
            if let Some(answer) = CrashMark::answer(&text, &mark) {
                return Ok(answer);
            }
            if text.len() > ANSWER_MAX {
                bail!("crash says more than {} MiB to `{command}`", ANSWER_MAX >> 20);
            }
            let wait = Request::Wait { child: self.child, milliseconds: WAIT_MILLIS };
            if let Reply::Child(ChildState::Exited(_, said) | ChildState::Signaled(_, said)) =
                self.call(&wait)?
            {
                add(&mut text, &said);
                bail!("crash ended at `{command}`\n{}", crate::host::process::tail(&text, 12));
            }
        }
    }
}
