//! Serves one request at a time, and looks after the children while it waits.

use crate::{
    children::{ChildStatus, Children, Program},
    events::{Events, Source},
    files, kcore, kernel_log, modules,
    port::{Port, ReadOutcome},
    power_off,
    refusal::Refusal,
    speed, trace, vectored,
};
use protocol::{ChildState, FrameError, Hello, Reply, Request, count_of_cpus};
use rustix::{
    fd::{FromRawFd, OwnedFd},
    io::Errno,
    param::page_size,
    time::{ClockId, clock_gettime},
};
use std::{
    io,
    time::{Duration, Instant},
};

/// The agent at work.
#[derive(Debug)]
pub(crate) struct Server {
    port: Port,
    events: Events,
    children: Children,
    /// Readable when a process has ended. On a kernel without signalfd, orphans are reaped when the
    /// next request arrives.
    orphans: Option<OwnedFd>,
    ready_micros: u64,
}

/// The result of a receive from the port.
enum Received {
    Request(Request),
    /// A complete frame that is not a request; the next frame can still be decoded.
    Malformed(FrameError),
    /// A length over the cap: nothing after it can be trusted.
    TooLong(FrameError),
    Closed,
}

impl Server {
    /// Sets up the event loop for `port`.
    pub(crate) fn new(port: Port) -> io::Result<Server> {
        let events = Events::new()?;
        events.watch_changes(&port, Source::Port)?;
        let orphans = child_signals();
        if let Some(signals) = &orphans {
            events.watch_reading(signals, Source::Orphans)?;
        }
        let ready_micros = boot_micros();
        Ok(Server { port, events, children: Children::default(), orphans, ready_micros })
    }

    /// Serves until the port or waiting for events fails, and returns the error.
    pub(crate) fn run(&mut self) -> io::Error {
        // Before the first connection, a closed port is not worth a message.
        let mut connected = false;
        loop {
            let served = match self.receive() {
                Ok(Received::Request(request)) => {
                    connected = true;
                    let reply = self.answer(request).unwrap_or_else(Reply::from);
                    self.send(&reply)
                }
                Ok(Received::Malformed(error)) => {
                    eprintln!("agent: {error}");
                    self.send(&Refusal::new("understand a request", Errno::BADMSG).into())
                }
                Ok(Received::TooLong(error)) => {
                    eprintln!("agent: {error}; dropping everything until the port closes");
                    let told = self.send(&Refusal::new("receive a request", Errno::MSGSIZE).into());
                    told.and_then(|()| self.drop_all())
                }
                Ok(Received::Closed) => {
                    self.forget(connected);
                    connected = false;
                    self.turn(None)
                }
                Err(error) => Err(error),
            };
            if let Err(error) = served {
                return error;
            }
        }
    }

    /// Waits for the next request.
    fn receive(&mut self) -> io::Result<Received> {
        loop {
            match self.port.take() {
                Some(Ok(request)) => return Ok(Received::Request(request)),
                Some(Err(error @ FrameError::TooLong(_))) => return Ok(Received::TooLong(error)),
                Some(Err(error)) => return Ok(Received::Malformed(error)),
                None => {}
            }
            match self.port.fill()? {
                ReadOutcome::Some => {}
                ReadOutcome::Nothing => self.turn(None)?,
                ReadOutcome::Closed => return Ok(Received::Closed),
            }
        }
    }

    fn send(&mut self, reply: &Reply) -> io::Result<()> {
        let frame = protocol::encode(reply).or_else(|error| {
            eprintln!("agent: {error}");
            protocol::encode(&Reply::from(Refusal::new("send a reply", Errno::MSGSIZE)))
        });
        let frame = frame.map_err(io::Error::other)?;
        let mut rest = &frame[..];
        while !rest.is_empty() {
            match self.port.send(rest)? {
                0 if self.port.fill()? == ReadOutcome::Closed => return Ok(()),
                0 => self.turn(None)?,
                sent => rest = rest.get(sent..).unwrap_or_default(),
            }
        }
        Ok(())
    }

    /// Drops everything that arrives until the port is closed.
    fn drop_all(&mut self) -> io::Result<()> {
        loop {
            self.port.clear();
            match self.port.fill()? {
                ReadOutcome::Some => {}
                ReadOutcome::Nothing => self.turn(None)?,
                ReadOutcome::Closed => return Ok(()),
            }
        }
    }

    /// Ends a connection: drops its input and its children.
    fn forget(&mut self, connected: bool) {
        let half = self.port.clear();
        self.children.clear();
        if half {
            eprintln!("agent: the port was closed in the middle of a request");
        } else if connected {
            eprintln!("agent: the port was closed");
        }
    }

    /// Waits for an event, at most for `limit`, and looks after the children.
    fn turn(&mut self, limit: Option<Duration>) -> io::Result<()> {
        let mut ended = self.orphans.is_none();
        for source in self.events.wait(limit)? {
            match source {
                // The caller reads the port next.
                Source::Port => {}
                Source::Orphans => {
                    ended = true;
                    if let Some(signals) = &self.orphans {
                        // `reap` finds out which process it was.
                        let _ = vectored::read(signals, &mut [0; 1024]);
                    }
                }
                Source::Child(id) => self.children.pump(id),
            }
        }
        if ended {
            self.children.reap();
        }
        Ok(())
    }

    fn answer(&mut self, request: Request) -> Result<Reply, Refusal> {
        let done = |()| Reply::Done;
        match request {
            Request::Hello => Ok(Reply::Hello(hello(self.ready_micros))),
            Request::WriteFile { path, data, mode } => files::write_file(&path, &data, mode).map(done),
            Request::ReadFile { path, max } => files::read_file(&path, max).map(Reply::Data),
            Request::ListDirectory { path } => files::list(&path).map(Reply::Names),
            Request::MakeDirectory { path } => files::make_directory(&path).map(done),
            Request::Remove { path } => files::remove(&path).map(done),
            Request::Push { path, mode, offset, data } => files::push(&path, mode, offset, &data).map(done),
            Request::LoadModule { path, parameters } => {
                let program = modules::loader(&path, &parameters);
                self.children.spawn(program, &self.events).map(Reply::Started)
            }
            Request::UnloadModule { name } => {
                self.children.spawn(modules::unloader(&name), &self.events).map(Reply::Started)
            }
            Request::Spawn { argv, env, stdin, output_max } => {
                let program = Program { argv, env, stdin, output_max };
                self.children.spawn(program, &self.events).map(Reply::Started)
            }
            Request::Wait { child, milliseconds } => {
                self.wait(child, Duration::from_millis(milliseconds.into())).map(Reply::Child)
            }
            Request::Output { child } => self.children.output(child).map(Reply::Said),
            Request::Take { child } => self.children.take(child).map(Reply::Said),
            Request::Feed { child, data } => self.children.feed(child, &data).map(done),
            Request::Listen { child, milliseconds } => {
                self.listen(child, Duration::from_millis(milliseconds.into())).map(done)
            }
            Request::Resize { child, rows, columns } => self.children.resize(child, rows, columns).map(done),
            Request::Kill { child, signal } => self.children.kill(child, signal).map(done),
            Request::ReadMemory { address, length } => kcore::read_memory(address, length).map(Reply::Data),
            Request::ReadInstructions { address, gaps } => {
                kcore::read_instructions(address, &gaps).map(Reply::Data)
            }
            Request::KernelLog { max } => {
                kernel_log::read(files::DATA_MAX.min(max as usize)).map(Reply::Data)
            }
            Request::StartTrace { instance } => trace::start(&instance).map(done),
            Request::DrainTrace { instance, max } => trace::drain(&instance, max),
            Request::StopTrace { instance } => trace::stop(&instance).map(done),
            Request::PowerOff => {
                power_off();
                Err(Refusal::new("power off", Errno::PERM))
            }
        }
    }

    /// Waits for output or the end of a child, at most until the next request.
    fn listen(&mut self, child: u32, limit: Duration) -> Result<(), Refusal> {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let pause = self.children.quiet_for(child)?.map_or(left, |quiet| quiet.min(left));
            let asked = !self.port.is_empty() || !matches!(self.port.fill(), Ok(ReadOutcome::Nothing));
            if pause.is_zero() || asked || self.turn(Some(pause)).is_err() {
                return Ok(());
            }
        }
    }

    /// Waits for the end of a child, at most until the port is closed.
    fn wait(&mut self, child: u32, limit: Duration) -> Result<ChildState, Refusal> {
        let deadline = Instant::now() + limit;
        loop {
            self.children.pump(child);
            let left = deadline.saturating_duration_since(Instant::now());
            let pause = match self.children.standing(child)? {
                ChildStatus::Over(state) => return Ok(state),
                ChildStatus::Closing(pause) => left.min(pause),
                ChildStatus::Running => left,
            };
            let gone = matches!(self.port.fill(), Ok(ReadOutcome::Closed) | Err(_));
            if left.is_zero() || gone || self.turn(Some(pause)).is_err() {
                return Ok(ChildState::Running);
            }
        }
    }
}

fn hello(ready_micros: u64) -> Hello {
    let online = vectored::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    Hello {
        version: protocol::VERSION,
        release: rustix::system::uname().release().to_string_lossy().into_owned(),
        cpus: count_of_cpus(&online),
        page_size: page_size() as u32,
        ready_micros,
        loop_micros: speed::loop_micros(),
    }
}

fn boot_micros() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}

/// Returns a signalfd for SIGCHLD, which is blocked from now on.
fn child_signals() -> Option<OwnedFd> {
    // SAFETY: sigemptyset initializes the set before it is used, sigprocmask and signalfd only read it,
    // and a descriptor that signalfd returns is new and has no other owner.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        match libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => None,
            fd => Some(OwnedFd::from_raw_fd(fd)),
        }
    }
}
