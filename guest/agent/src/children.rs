//! Programs the lab has started: their pipes, their ends, and their signals.
//!
//! Each runs in a process group of its own, with the agent reading stdout and stderr whenever it
//! waits for anything, so that no child ever blocks on a full pipe.

use crate::{
    events::{Events, Source},
    refusal::{Refusal, Refused},
    stream::{Feed, Input, Output},
    terminal::{self, Terminal},
};
use protocol::{ChildState, FEED_MAX, MAX_FRAME, Stdin};
use rustix::{
    fd::OwnedFd,
    io::Errno,
    process::{Pid, PidfdFlags, WaitOptions, WaitStatus, pidfd_open, wait, waitpid},
};
use std::{
    collections::BTreeMap,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// How long the output of an ended child is waited for when one of its descendants, which may run
/// for ever, holds the pipe.
const GRACE: Duration = Duration::from_millis(200);

/// The most output of one stream that is kept: both have to fit a reply.
const OUTPUT_MAX: usize = (MAX_FRAME - 1024) / 2;

/// How many children may be known at a time; each may hold output.
const CHILDREN_MAX: usize = 64;

/// What [`protocol::Request::Spawn`] asks for.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<String>,
    pub(crate) stdin: Stdin,
    pub(crate) output_max: u32,
}

/// How a child stands at a moment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// There is no news before something happens.
    Running,
    /// It ended, but its output is open; ask again after this time if nothing happens before.
    Closing(Duration),
    /// It is over.
    Over(ChildState),
}

/// All children that are known.
#[derive(Debug, Default)]
pub(crate) struct Children {
    known: BTreeMap<u32, Child>,
    last: u32,
}

#[derive(Debug)]
struct Child {
    pid: Pid,
    /// Readable once the child has ended; closed when it was reaped.
    pidfd: Option<OwnedFd>,
    stdin: Option<Input>,
    feed: Option<Feed>,
    /// Whether what it is fed goes to a terminal.
    terminal: bool,
    stdout: Output,
    stderr: Output,
    ended: Option<(WaitStatus, Instant)>,
    /// Its end was told; only its output's pipes are left, kept open for its descendants.
    told: bool,
}

/// The agent waits for its children by a signal that it has blocked, and a mask is inherited.
fn unblock_signals(command: &mut Command) {
    // SAFETY: between fork and exec the closure makes one system call with a set on its own stack.
    unsafe {
        command.pre_exec(|| {
            let mut none = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            match libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
}

impl Children {
    /// Starts a program and gives back its number.
    pub(crate) fn spawn(&mut self, program: Program, events: &Events) -> Result<u32, Refusal> {
        let Some((path, args)) = program.argv.split_first() else {
            return Err(Refusal::new("spawn nothing", Errno::INVAL));
        };
        if !path.starts_with('/') {
            return Err(Refusal::new(format!("spawn {path} without a full path"), Errno::INVAL));
        }
        if self.known.len() >= CHILDREN_MAX {
            return Err(Refusal::new(format!("spawn {path} beside {CHILDREN_MAX} others"), Errno::AGAIN));
        }
        let mut command = Command::new(Path::new(path));
        command.args(args).env_clear();
        for variable in &program.env {
            // A word without `=` is a name without a value.
            let (name, value) = variable.split_once('=').unwrap_or((variable, ""));
            if name.is_empty() {
                return Err(Refusal::new(format!("spawn {path} with variable {variable}"), Errno::INVAL));
            }
            command.env(name, value);
        }
        unblock_signals(&mut command);
        let terminal = stdio(&mut command, &program.stdin).refused("make a terminal for", path)?;
        let mut spawned = command.spawn().refused("spawn", path)?;
        // It holds the child's end of a terminal, whose last holder is to be the child.
        drop(command);
        let id = self.last.wrapping_add(1);
        let limit = (program.output_max as usize).min(OUTPUT_MAX);
        let streams = Streams::new(&mut spawned, program.stdin, terminal, limit);
        let child =
            streams.and_then(|streams| Child::new(&spawned, streams, id, events)).or_else(|error| {
                // It would run unwatched; `reap` meets it again.
                let _ = spawned.kill();
                Err(error).refused("watch", path)
            })?;
        self.last = id;
        self.known.insert(id, child);
        Ok(id)
    }

    /// Something of child `id` is ready: reads, writes and reaps what there is.
    pub(crate) fn pump(&mut self, id: u32) {
        let Some(child) = self.known.get_mut(&id) else { return };
        child.pump();
        if child.is_gone() {
            self.known.remove(&id);
        }
    }

    /// How child `id` stands. Its end is told once.
    pub(crate) fn standing(&mut self, id: u32) -> Result<Standing, Refusal> {
        let child = self.untold(id, "wait for")?;
        let status = match child.end_in() {
            End::No => return Ok(Standing::Running),
            End::In(left) => return Ok(Standing::Closing(left)),
            End::Now(status) => status,
        };
        let state = child.tell(status);
        if child.is_gone() {
            self.known.remove(&id);
        }
        Ok(Standing::Over(state))
    }

    /// Whether there is anything to tell of child `id`, else how long it may take if nothing happens:
    /// no time that is known.
    pub(crate) fn quiet_for(&mut self, id: u32) -> Result<Option<Duration>, Refusal> {
        let child = self.untold(id, "listen to")?;
        child.pump();
        if child.stdout.has_news() || child.stderr.has_news() {
            return Ok(Some(Duration::ZERO));
        }
        Ok(match child.end_in() {
            End::No => None,
            End::In(left) => Some(left),
            End::Now(_) => Some(Duration::ZERO),
        })
    }

    /// What child `id` has written so far.
    pub(crate) fn output(&mut self, id: u32) -> Result<protocol::Output, Refusal> {
        let child = self.untold(id, "read the output of")?;
        child.pump();
        Ok(child.output(child.stdout.so_far(), child.stderr.so_far()))
    }

    /// What child `id` has written since this was last asked.
    pub(crate) fn take(&mut self, id: u32) -> Result<protocol::Output, Refusal> {
        let child = self.untold(id, "read the output of")?;
        child.pump();
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        Ok(child.output(stdout, stderr))
    }

    /// Writes to child `id`.
    pub(crate) fn feed(&mut self, id: u32, data: &[u8]) -> Result<(), Refusal> {
        let child = self.untold(id, "feed")?;
        let what = || format!("feed child {id}");
        match &mut child.feed {
            _ if data.len() > FEED_MAX => Err(Refusal::new(what(), Errno::MSGSIZE)),
            feed @ Some(_) if data.is_empty() && !child.terminal => {
                *feed = None;
                Ok(())
            }
            Some(feed) => feed.write(data).map_err(|errno| Refusal::new(what(), errno)),
            // Its stdin was never open, or is not any more, or it has ended.
            None => Err(Refusal::new(what(), Errno::PIPE)),
        }
    }

    /// Tells the terminal of child `id` its size.
    pub(crate) fn resize(&mut self, id: u32, rows: u16, columns: u16) -> Result<(), Refusal> {
        let child = self.untold(id, "resize the terminal of")?;
        let feed = child.feed.as_ref().filter(|_| child.terminal).ok_or(Errno::NOTTY);
        let resized = feed.and_then(|feed| terminal::resize(feed.pipe(), rows, columns));
        resized.map_err(|errno| Refusal::new(format!("resize the terminal of child {id}"), errno))
    }

    /// Child `id`, whose end was not told yet.
    fn untold(&mut self, id: u32, doing: &str) -> Result<&mut Child, Refusal> {
        let child = self.known.get_mut(&id).filter(|child| !child.told);
        child.ok_or_else(|| Refusal::new(format!("{doing} child {id}"), Errno::CHILD))
    }

    /// Sends a signal to the process group of child `id`; also to what a child that has ended left
    /// behind there, as long as one of those holds its output.
    pub(crate) fn kill(&mut self, id: u32, signal: i32) -> Result<(), Refusal> {
        let what = || format!("kill child {id}");
        let child = self.known.get(&id).ok_or_else(|| Refusal::new(what(), Errno::SRCH))?;
        kill_group(child.pid, signal).map_err(|errno| Refusal::new(what(), errno))
    }

    /// Kills and forgets every child.
    pub(crate) fn clear(&mut self) {
        for child in self.known.values() {
            // It may have ended: then there is nothing to kill.
            let _ = kill_group(child.pid, libc::SIGKILL);
        }
        // Those that were not reaped yet are orphans to `reap`.
        self.known.clear();
    }

    /// Reaps whatever has ended, children of the agent's own and those it inherited.
    pub(crate) fn reap(&mut self) {
        // ECHILD, none at all, is as good as none that has ended.
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if let Some(child) = self.known.values_mut().find(|child| child.pid == pid) {
                child.end(status);
            }
        }
    }
}

/// Both ends of what a child reads and writes.
struct Streams {
    stdin: Option<Input>,
    feed: Option<Feed>,
    terminal: bool,
    stdout: Output,
    stderr: Output,
}

/// What a command reads and writes, and its terminal if it is to have one.
fn stdio(command: &mut Command, stdin: &Stdin) -> std::io::Result<Option<Terminal>> {
    if let Stdin::Terminal { rows, columns } = stdin {
        return Terminal::give(command, *rows, *columns).map(Some);
    }
    let nothing = matches!(stdin, Stdin::Bytes(bytes) if bytes.is_empty());
    command.process_group(0).stdin(if nothing { Stdio::null() } else { Stdio::piped() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(None)
}

impl Streams {
    fn new(
        spawned: &mut std::process::Child,
        stdin: Stdin,
        terminal: Option<Terminal>,
        limit: usize,
    ) -> std::io::Result<Streams> {
        if let Some(terminal) = terminal {
            let (stdout, feed) = terminal.streams(limit)?;
            let stderr = Output::closed();
            return Ok(Streams { stdin: None, feed: Some(feed), terminal: true, stdout, stderr });
        }
        let output = if stdin == Stdin::Open { Output::waiting } else { Output::new };
        let stdout = output(spawned.stdout.take().ok_or(Errno::BADF)?.into(), limit)?;
        let stderr = output(spawned.stderr.take().ok_or(Errno::BADF)?.into(), limit)?;
        let (stdin, feed) = match (spawned.stdin.take(), stdin) {
            (Some(pipe), Stdin::Bytes(bytes)) => (Some(Input::new(pipe.into(), bytes)?), None),
            (Some(pipe), _) => (None, Some(Feed::new(pipe.into())?)),
            (None, _) => (None, None),
        };
        Ok(Streams { stdin, feed, terminal: false, stdout, stderr })
    }
}

/// Whether the end of a child can be told.
enum End {
    No,
    /// After this time at the latest.
    In(Duration),
    Now(WaitStatus),
}

impl Child {
    fn new(
        spawned: &std::process::Child,
        streams: Streams,
        id: u32,
        events: &Events,
    ) -> std::io::Result<Child> {
        let Streams { stdin, feed, terminal, stdout, stderr } = streams;
        let source = Source::Child(id);
        let pid = Pid::from_raw(spawned.id().cast_signed()).ok_or(Errno::SRCH)?;
        // Nobody has reaped it yet, so the number is still its own.
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        events.watch_reading(&pidfd, source)?;
        for output in [&stdout, &stderr] {
            match output.pipe() {
                // Output that waits would be told of without end.
                Some(pipe) if feed.is_some() => events.watch_changes(pipe, source)?,
                Some(pipe) => events.watch_reading(pipe, source)?,
                None => {}
            }
        }
        if let Some(pipe) = stdin.as_ref().and_then(Input::pipe) {
            events.watch_writing(pipe, source)?;
        }
        let pidfd = Some(pidfd);
        Ok(Child { pid, pidfd, stdin, feed, terminal, stdout, stderr, ended: None, told: false })
    }

    fn pump(&mut self) {
        if let Some(stdin) = &mut self.stdin {
            stdin.pump();
        }
        if let Some(feed) = &mut self.feed {
            // A child that reads no more tells so by its end.
            let _ = feed.pump();
        }
        self.stdout.pump();
        self.stderr.pump();
        if self.ended.is_none()
            && let Ok(Some((_, status))) = waitpid(Some(self.pid), WaitOptions::NOHANG)
        {
            self.end(status);
        }
    }

    fn end_in(&self) -> End {
        let Some((status, ended)) = self.ended else { return End::No };
        let left = GRACE.saturating_sub(ended.elapsed());
        if self.output_is_closed() || left.is_zero() { End::Now(status) } else { End::In(left) }
    }

    fn end(&mut self, status: WaitStatus) {
        self.ended = Some((status, Instant::now()));
        self.pidfd = None;
        // What it did not read, nobody will.
        self.stdin = None;
        self.feed = None;
    }

    fn output_is_closed(&self) -> bool {
        self.stdout.is_closed() && self.stderr.is_closed()
    }

    fn is_gone(&self) -> bool {
        self.told && self.output_is_closed()
    }

    fn output(
        &self,
        (stdout, dropped_stdout): (Vec<u8>, u64),
        (stderr, dropped_stderr): (Vec<u8>, u64),
    ) -> protocol::Output {
        let dropped = dropped_stdout + dropped_stderr;
        protocol::Output { pid: self.pid.as_raw_nonzero().get(), stdout, stderr, dropped }
    }

    fn tell(&mut self, status: WaitStatus) -> ChildState {
        self.told = true;
        let (stdout, stderr) = (self.stdout.end(), self.stderr.end());
        let output = self.output(stdout, stderr);
        match status.terminating_signal() {
            Some(signal) => ChildState::Signaled(signal, output),
            None => ChildState::Exited(status.exit_status().unwrap_or_default(), output),
        }
    }
}

/// Any signal number, 0 and real-time ones included.
fn kill_group(leader: Pid, signal: i32) -> Result<(), Errno> {
    // SAFETY: kill takes two numbers and touches no memory.
    match unsafe { libc::kill(-leader.as_raw_nonzero().get(), signal) } {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
    }
}

#[cfg(test)]
#[path = "children_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "talked_to_tests.rs"]
mod talked_to_tests;
