//! Programs that the lab has started: their pipes, signals and exit statuses.
//!
//! Each runs in its own process group. The agent reads stdout and stderr whenever it waits for
//! anything, so that no child blocks on a full pipe, except an interactive one whose output the lab
//! has not taken.

use crate::{
    events::{Events, Source},
    exec::{self, Ends},
    refusal::{Refusal, Refused},
    stream::{Feed, Input, Output},
    terminal::{self, Terminal},
};
use protocol::{ChildState, FEED_MAX, MAX_FRAME, Stdin};
use rustix::{
    fd::OwnedFd,
    fs::{Mode, OFlags, open},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
    process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, kill_process, pidfd_open, wait, waitpid},
};
use std::{
    collections::BTreeMap,
    io,
    time::{Duration, Instant},
};

/// The time limit for the output of an ended child while a descendant, which may run for ever, holds
/// the pipe open.
const GRACE: Duration = Duration::from_millis(200);

/// The maximum number of bytes to keep of one stream: both must fit a reply.
const OUTPUT_MAX: usize = (MAX_FRAME - 1024) / 2;

/// The maximum number of children at a time; each may hold output.
const CHILDREN_MAX: usize = 64;

/// The program of a [`protocol::Request::Spawn`].
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<String>,
    pub(crate) stdin: Stdin,
    pub(crate) output_max: u32,
}

/// The current state of a child.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ChildStatus {
    /// It is running; ask again after the next event.
    Running,
    /// It ended, but its output is open; ask again after the next event, or after this time.
    Closing(Duration),
    /// It ended, and its output is complete.
    Over(ChildState),
}

/// All children.
#[derive(Debug, Default)]
pub(crate) struct Children {
    known: BTreeMap<u32, Child>,
    last: u32,
}

#[derive(Debug)]
struct Child {
    pid: Pid,
    /// Readable once the child has ended; closed when it is reaped.
    pidfd: Option<OwnedFd>,
    stdin: Option<Input>,
    feed: Option<Feed>,
    /// Whether `feed` is a terminal.
    terminal: bool,
    stdout: Output,
    stderr: Output,
    ended: Option<(WaitStatus, Instant)>,
    /// Its end was reported; only its output pipes are left, kept open for its descendants.
    told: bool,
}

impl Children {
    /// Starts a program and returns its number.
    pub(crate) fn spawn(&mut self, program: Program, events: &Events) -> Result<u32, Refusal> {
        let Some(path) = program.argv.first() else {
            return Err(Refusal::new("spawn nothing", Errno::INVAL));
        };
        if !path.starts_with('/') {
            return Err(Refusal::new(format!("spawn {path} without a full path"), Errno::INVAL));
        }
        if self.known.len() >= CHILDREN_MAX {
            return Err(Refusal::new(format!("spawn {path} besides {CHILDREN_MAX} others"), Errno::AGAIN));
        }
        let mut env = BTreeMap::new();
        for variable in &program.env {
            // A word without `=` is a name without a value.
            let (name, value) = variable.split_once('=').unwrap_or((variable, ""));
            if name.is_empty() {
                return Err(Refusal::new(format!("spawn {path} with variable {variable}"), Errno::INVAL));
            }
            env.insert(name, value);
        }
        let limit = (program.output_max as usize).min(OUTPUT_MAX);
        let (streams, ends) = Streams::open(program.stdin, limit).refused("make the streams of", path)?;
        let pid = exec::start(&program.argv, &env, &ends).refused("spawn", path)?;
        // Only the child may hold its ends open.
        drop(ends);
        let id = self.last.wrapping_add(1);
        let child = Child::new(pid, streams, id, events).or_else(|error| {
            // It would run unwatched; `reap` will reap it.
            let _ = kill_process(pid, Signal::KILL);
            Err(error).refused("watch", path)
        })?;
        self.last = id;
        self.known.insert(id, child);
        Ok(id)
    }

    /// Handles an event of child `id`: reads, writes and reaps as far as possible.
    pub(crate) fn pump(&mut self, id: u32) {
        let Some(child) = self.known.get_mut(&id) else { return };
        child.pump();
        if child.is_gone() {
            self.known.remove(&id);
        }
    }

    /// Returns the state of child `id`. Its end is reported once.
    pub(crate) fn standing(&mut self, id: u32) -> Result<ChildStatus, Refusal> {
        let child = self.untold(id, "wait for")?;
        let status = match child.end_in() {
            End::No => return Ok(ChildStatus::Running),
            End::In(left) => return Ok(ChildStatus::Closing(left)),
            End::Now(status) => status,
        };
        let state = child.tell(status);
        if child.is_gone() {
            self.known.remove(&id);
        }
        Ok(ChildStatus::Over(state))
    }

    /// Returns how long child `id` will have nothing to report unless there is an event: zero if it has
    /// something now, `None` if only an event can change that.
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

    /// Returns the output of child `id` so far.
    pub(crate) fn output(&mut self, id: u32) -> Result<protocol::Output, Refusal> {
        let child = self.untold(id, "read the output of")?;
        child.pump();
        Ok(child.output(child.stdout.so_far(), child.stderr.so_far()))
    }

    /// Takes the output of child `id` since the last call.
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
            // Its stdin was never open or has been closed, or the child has ended.
            None => Err(Refusal::new(what(), Errno::PIPE)),
        }
    }

    /// Sets the size of the terminal of child `id`.
    pub(crate) fn resize(&mut self, id: u32, rows: u16, columns: u16) -> Result<(), Refusal> {
        let child = self.untold(id, "resize the terminal of")?;
        let feed = child.feed.as_ref().filter(|_| child.terminal).ok_or(Errno::NOTTY);
        let resized = feed.and_then(|feed| terminal::resize(feed.pipe(), rows, columns));
        resized.map_err(|errno| Refusal::new(format!("resize the terminal of child {id}"), errno))
    }

    /// Returns child `id` if its end was not reported yet, else ECHILD.
    fn untold(&mut self, id: u32, doing: &str) -> Result<&mut Child, Refusal> {
        let child = self.known.get_mut(&id).filter(|child| !child.told);
        child.ok_or_else(|| Refusal::new(format!("{doing} child {id}"), Errno::CHILD))
    }

    /// Sends a signal to the process group of child `id`. After the child has ended, this still reaches
    /// its descendants in the group while one of them holds its output open.
    pub(crate) fn kill(&mut self, id: u32, signal: i32) -> Result<(), Refusal> {
        let what = || format!("kill child {id}");
        let child = self.known.get(&id).ok_or_else(|| Refusal::new(what(), Errno::SRCH))?;
        kill_group(child.pid, signal).map_err(|errno| Refusal::new(what(), errno))
    }

    /// Kills and forgets every child.
    pub(crate) fn clear(&mut self) {
        for child in self.known.values() {
            // This fails if it has already ended.
            let _ = kill_group(child.pid, libc::SIGKILL);
        }
        // `reap` treats those that were not reaped yet as orphans.
        self.known.clear();
    }

    /// Reaps all processes that have ended: the agent's own children and inherited orphans.
    pub(crate) fn reap(&mut self) {
        // Without any child, wait fails with ECHILD.
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if let Some(child) = self.known.values_mut().find(|child| child.pid == pid) {
                child.end(status);
            }
        }
    }
}

/// The agent's ends of a child's stdin, stdout and stderr.
struct Streams {
    stdin: Option<Input>,
    feed: Option<Feed>,
    terminal: bool,
    stdout: Output,
    stderr: Output,
}

impl Streams {
    /// Returns new streams, whose outputs are kept up to `limit` bytes, and the child's ends of them.
    fn open(stdin: Stdin, limit: usize) -> io::Result<(Streams, Ends)> {
        let (input, data) = match stdin {
            Stdin::Terminal { rows, columns } => {
                let (terminal, ends) = Terminal::open(rows, columns)?;
                let (stdout, feed) = terminal.streams(limit)?;
                let stderr = Output::closed();
                return Ok((Streams { stdin: None, feed: Some(feed), terminal: true, stdout, stderr }, ends));
            }
            Stdin::Bytes(bytes) if bytes.is_empty() => (None, None),
            Stdin::Bytes(bytes) => (Some(pipe_with(PipeFlags::CLOEXEC)?), Some(bytes)),
            Stdin::Open => (Some(pipe_with(PipeFlags::CLOEXEC)?), None),
        };
        let (stdout, child_stdout) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, child_stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        let interactive = input.is_some() && data.is_none();
        let output = if interactive { Output::waiting } else { Output::new };
        let (stdout, stderr) = (output(stdout, limit)?, output(stderr, limit)?);
        let (child_stdin, stdin, feed) = match (input, data) {
            (Some((end, pipe)), Some(data)) => (end, Some(Input::new(pipe, data)?), None),
            (Some((end, pipe)), None) => (end, None, Some(Feed::new(pipe)?)),
            (None, _) => (open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?, None, None),
        };
        let ends = Ends { stdin: child_stdin, stdout: child_stdout, stderr: child_stderr, terminal: false };
        Ok((Streams { stdin, feed, terminal: false, stdout, stderr }, ends))
    }
}

/// Whether the end of a child can be reported.
enum End {
    No,
    /// Within this time.
    In(Duration),
    Now(WaitStatus),
}

impl Child {
    fn new(pid: Pid, streams: Streams, id: u32, events: &Events) -> io::Result<Child> {
        let Streams { stdin, feed, terminal, stdout, stderr } = streams;
        let source = Source::Child(id);
        // It was not reaped yet, so the PID is still its own.
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        events.watch_reading(&pidfd, source)?;
        for output in [&stdout, &stderr] {
            match output.pipe() {
                // Unread output of an interactive child would be reported endlessly.
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
            // An error means that the child no longer reads; its end will be reported.
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
        // No process will read what it left unread.
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

/// Sends a signal to a process group. Any number is allowed, including 0 and real-time signals.
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
#[path = "interactive_tests.rs"]
mod interactive_tests;
