//! Runs a shell in the guest on the lab's stdin and stdout: either the keys of a terminal or the
//! commands from a pipe.

use super::{LiveGuest, terminal};
use crate::machine::{Death, ENVIRONMENT, Machine};
use anyhow::{Result, anyhow};
use protocol::{ChildState, FEED_MAX, Output, Reply, Request, Stdin};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, read},
};
use std::{
    io::{IsTerminal, Write as _, stderr, stdin, stdout},
    os::fd::AsFd,
    time::Duration,
};

/// The key that leaves the guest at any time: Ctrl-], as in telnet.
const LEAVE: u8 = 0x1d;

/// The time limit for the agent's answers; a guest may be slow, or its kernel may hang.
const PATIENCE: Duration = Duration::from_secs(30);

/// The time of one wait for the shell, in milliseconds; after each wait, the size of the terminal
/// is checked.
const LISTEN_MILLIS: u32 = 500;

/// The same, while the shell does not read its input.
const LISTEN_FULL_MILLIS: u32 = 20;

/// The maximum number of bytes of output that the agent buffers, and so the amount still shown
/// after a Ctrl-C.
const OUTPUT_MAX: u32 = 64 << 10;

/// The end of a shell.
#[derive(Debug)]
pub enum ShellEnd {
    /// It exited with this status, or was killed by a signal: 128 plus its number.
    Exited(i32),
    /// The user pressed the key that leaves at once.
    Key,
    /// The guest died.
    Died(Death),
}

/// Runs a shell until it ends.
pub fn shell(live: &mut LiveGuest) -> Result<ShellEnd> {
    let interactive = stdin().is_terminal();
    if !live.userland {
        match install_tools(&mut live.machine) {
            Ok(()) => {}
            Err(death) => return Ok(ShellEnd::Died(death)),
        }
    }
    if interactive {
        eprint!("{}", banner(live));
    }
    // Dropped last, so that messages about the end are printed in the terminal's original mode.
    let _modes = interactive.then(terminal::Modes::raw).transpose()?;
    let input = if interactive { terminal::in_guest() } else { Stdin::Open };
    let spawn = Request::Spawn {
        argv: command(live.userland, interactive),
        env: environment(live, interactive),
        stdin: input,
        output_max: OUTPUT_MAX,
    };
    let child = match live.machine.call(&spawn, PATIENCE) {
        Ok(Reply::Started(child)) => child,
        Ok(other) => return Err(anyhow!("cannot start a shell in the guest: {other:?}")),
        Err(death) => return Ok(ShellEnd::Died(death)),
    };
    let bridge = Bridge {
        machine: &mut live.machine,
        child,
        size: interactive.then(terminal::size),
        waiting: Vec::new(),
        input: Input::Open,
    };
    bridge.run()
}

/// Installs links for busybox's tools.
fn install_tools(machine: &mut Machine) -> Result<(), Death> {
    let argv = ["/bin/busybox", "--install", "-s", "/bin"].map(str::to_owned).into();
    let stdin = Stdin::Bytes(Vec::new());
    let spawn = Request::Spawn { argv, env: Vec::new(), stdin, output_max: 1000 };
    let child = match machine.call(&spawn, PATIENCE)? {
        Reply::Started(child) => child,
        other => return Err(Death::Lab(anyhow!("cannot start busybox in the guest: {other:?}"))),
    };
    let milliseconds = PATIENCE.as_millis() as u32;
    match machine.call(&Request::Wait { child, milliseconds }, PATIENCE * 2)? {
        Reply::Child(ChildState::Exited(0, _)) => Ok(()),
        other => Err(Death::Lab(anyhow!("busybox cannot install its tools: {other:?}"))),
    }
}

/// Returns the command line of the shell, in tracefs.
fn command(userland: bool, interactive: bool) -> Vec<String> {
    let shell = match (userland, interactive) {
        // Its start-up files belong to the tree, not to this machine.
        (true, true) => "exec /bin/bash --norc -i",
        (true, false) => "exec /bin/bash --norc",
        (false, true) => "exec /bin/sh -i",
        (false, false) => "exec /bin/sh",
    };
    ["/bin/sh", "-c", &format!("cd /sys/kernel/tracing; {shell}")].map(str::to_owned).into()
}

fn environment(live: &LiveGuest, interactive: bool) -> Vec<String> {
    let mut env: Vec<String> = ENVIRONMENT
        .iter()
        .filter(|variable| !interactive || !variable.starts_with("TERM="))
        .map(|variable| variable.replacen("PATH=", "PATH=/workloads:", 1))
        .collect();
    if interactive {
        let terminal = std::env::var("TERM").unwrap_or_else(|_| "dumb".to_owned());
        env.extend([format!("TERM={terminal}"), format!("PS1={} \\w # ", live.kernel.name)]);
    }
    env
}

fn banner(live: &LiveGuest) -> String {
    let kernel = &live.kernel.release;
    let machine = if live.userland { "with a Debian userland" } else { "pristine, with busybox" };
    let modules: Vec<&str> = live.modules.iter().map(|module| module.name.as_str()).collect();
    let loaded: Vec<&str> = live.loaded.iter().map(|loaded| loaded.module.name.as_str()).collect();
    let loaded = if loaded.is_empty() { String::new() } else { format!("; loaded: {}", loaded.join(", ")) };
    format!(
        "A private machine: Linux {kernel}, {machine}.\n  \
           /sys/kernel/tracing  tracefs, the current directory\n  \
           /workloads           the scenarios' programs, on PATH: eventfd 1 2 4\n  \
           /modules             {}{loaded}\n\
         `exit` or Ctrl-D leaves, Ctrl-] leaves at once; the guest is discarded.\n",
        modules.join(", "),
    )
}

/// The state of the lab's stdin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    Open,
    /// It has ended, and the shell must be informed.
    Over,
    /// The shell no longer reads it.
    Closed,
}

/// Passes input to the shell and its output to the user.
struct Bridge<'a> {
    machine: &'a mut Machine,
    child: u32,
    /// The current size of the guest's terminal.
    size: Option<(u16, u16)>,
    /// Bytes that were read but not yet accepted by the shell.
    waiting: Vec<u8>,
    input: Input,
}

impl Bridge<'_> {
    fn run(mut self) -> Result<ShellEnd> {
        loop {
            match self.tell() {
                Ok(None) => {}
                Ok(Some(status)) => return Ok(ShellEnd::Exited(status)),
                Err(death) => return Ok(ShellEnd::Died(death)),
            }
            match self.listen() {
                Ok(true) if self.read()? => return Ok(ShellEnd::Key),
                Ok(_) => {}
                Err(death) => return Ok(ShellEnd::Died(death)),
            }
        }
    }

    /// Sends pending input to the shell and prints its output. Returns its exit status once it has
    /// ended.
    fn tell(&mut self) -> Result<Option<i32>, Death> {
        let child = self.child;
        let mut requests = Vec::new();
        if let Some(before) = self.size {
            let now @ (rows, columns) = terminal::size();
            if now != before {
                requests.push(Request::Resize { child, rows, columns });
                self.size = Some(now);
            }
        }
        let feeds = !self.waiting.is_empty() || self.input == Input::Over;
        let chunk = self.waiting.len().min(FEED_MAX);
        if feeds {
            requests.push(Request::Feed { child, data: self.waiting[..chunk].to_vec() });
        }
        let fed = requests.len().checked_sub(1).filter(|_| feeds);
        requests.push(Request::Take { child });
        requests.push(Request::Wait { child, milliseconds: 0 });
        let mut replies = self.machine.call_all(&requests, PATIENCE)?;
        let (end, said) = (replies.pop(), replies.pop());
        match fed.map(|fed| replies.swap_remove(fed)) {
            Some(Reply::Done) if chunk == 0 => self.input = Input::Closed,
            Some(Reply::Done) => drop(self.waiting.drain(..chunk)),
            Some(Reply::Errno { errno, .. }) if errno == Errno::AGAIN.raw_os_error() => {}
            // It has exited, or no longer reads.
            Some(_) => (self.waiting, self.input) = (Vec::new(), Input::Closed),
            None => {}
        }
        if let Some(Reply::Said(output)) = said {
            show(&output)?;
        }
        match end {
            Some(Reply::Child(ChildState::Running)) => Ok(None),
            Some(Reply::Child(ChildState::Exited(status, output))) => show(&output).map(|()| Some(status)),
            Some(Reply::Child(ChildState::Signaled(signal, output))) => {
                show(&output).map(|()| Some(128 + signal))
            }
            other => Err(Death::AgentLost(format!("asked for the end of the shell, it answered {other:?}"))),
        }
    }

    /// Waits for output or input. Returns whether there is input on the lab's stdin.
    fn listen(&mut self) -> Result<bool, Death> {
        let reads = self.waiting.is_empty() && self.input == Input::Open;
        let milliseconds = match self.waiting.is_empty() && self.input != Input::Over {
            true => LISTEN_MILLIS,
            false => LISTEN_FULL_MILLIS,
        };
        let request = Request::Listen { child: self.child, milliseconds };
        let stdin = stdin();
        let others = [stdin.as_fd()];
        let others = if reads { &others[..] } else { &[] };
        Ok(self.machine.call_unless(&request, PATIENCE, others)?.is_none() || (reads && is_readable()))
    }

    /// Reads input. Returns whether it contains the key that leaves.
    fn read(&mut self) -> Result<bool> {
        let mut chunk = [0; FEED_MAX];
        match read(stdin(), &mut chunk) {
            Ok(0) => self.input = Input::Over,
            Ok(count) => {
                let typed = &chunk[..count];
                if self.size.is_some() && typed.contains(&LEAVE) {
                    return Ok(true);
                }
                self.waiting.extend_from_slice(typed);
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            // The terminal no longer exists.
            Err(_) => self.input = Input::Over,
        }
        Ok(false)
    }
}

/// Returns whether the lab's stdin has input or has ended.
fn is_readable() -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(&stdin(), PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
}

/// Writes the shell's output to the lab's stdout and stderr.
fn show(output: &Output) -> Result<(), Death> {
    let put = || -> std::io::Result<()> {
        stdout().write_all(&output.stdout)?;
        stdout().flush()?;
        stderr().write_all(&output.stderr)
    };
    put().map_err(|error| Death::Lab(anyhow!("cannot write the output of the shell: {error}")))
}
