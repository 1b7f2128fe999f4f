//! One conversation with the agent: sends requests and receives replies, until a deadline.
//!
//! Reading and writing are interleaved, so that a guest with a full queue in one direction cannot
//! block the other. Each wait also watches the monitor and checks whether the lab was interrupted.

use super::{
    monitor::{Ending, Monitor},
    withheld::Withheld,
};
use crate::host::interrupt;
use protocol::{FrameError, Reply, Request};
use rustix::{
    buffer::spare_capacity,
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, read, retry_on_intr},
};
use std::{
    io::{self, Write},
    os::{fd::BorrowedFd, unix::net::UnixStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// The interval at which a wait checks whether the lab was interrupted.
const SLICE: Duration = Duration::from_millis(100);

/// The time in which a guest whose console shows a panic must answer, if that is only text. Not every kernel has a
/// driver for pvpanic, which reports a panic at once.
const PANICKED_MAX: Duration = Duration::from_secs(3);

/// The room for each read of replies, in bytes.
const CHUNK: usize = 64 << 10;

/// The maximum number of bytes of replies buffered while requests are written.
const INBOX_MAX: usize = 16 << 20;

/// A conversation in progress.
pub(super) struct Port<'a> {
    socket: &'a UnixStream,
    monitor: &'a mut Monitor,
    until: Instant,
    ending: Option<Ending>,
    state: &'a mut PortState,
    /// Other descriptors that end the wait for a reply when they are readable.
    others: &'a [BorrowedFd<'a>],
    /// Whether one of them was readable.
    turned_away: bool,
}

/// The state that one conversation leaves to the next: a deadline can pass in the middle of a
/// reply.
#[derive(Debug)]
pub(super) struct PortState {
    /// Received bytes that were not decoded yet.
    inbox: Vec<u8>,
    /// The number of replies that no caller waits for any more; they precede those to new requests.
    owed: usize,
    /// Whether a request was written only in part, so that no other can follow.
    broken: bool,
    /// Whether the console shows a panic.
    panicked: Arc<AtomicBool>,
    /// What the host withheld from the guest.
    pub(super) withheld: Withheld,
}

impl PortState {
    /// The state before the first conversation with the guest of a QEMU.
    pub(super) fn new(qemu: u32, panicked: Arc<AtomicBool>) -> PortState {
        PortState { inbox: Vec::new(), owed: 0, broken: false, panicked, withheld: Withheld::new(qemu) }
    }
}

impl<'a> Port<'a> {
    pub(super) fn new(
        socket: &'a UnixStream,
        monitor: &'a mut Monitor,
        state: &'a mut PortState,
        until: Instant,
    ) -> Port<'a> {
        Port { socket, monitor, until, ending: None, state, others: &[], turned_away: false }
    }

    /// Returns the end of the guest, according to the monitor, once the conversation has failed.
    pub(super) fn ending(&mut self) -> Option<Ending> {
        // The port can be closed before the event with the reason was read.
        self.ending.or_else(|| self.monitor.ending().ok().flatten())
    }

    /// Sends all requests and receives all replies.
    pub(super) fn converse(
        &mut self,
        requests: &[Request],
        replies: &mut Vec<Reply>,
    ) -> Result<(), FrameError> {
        let stale = self.state.owed;
        requests.iter().try_for_each(|request| self.send(request))?;
        for _ in 0..stale {
            let length = self.frame_length()?;
            self.state.inbox.drain(..length);
            self.state.owed -= 1;
        }
        while replies.len() < requests.len() {
            let length = self.frame_length()?;
            let reply = protocol::read_frame(&mut &self.state.inbox[..length]);
            self.state.inbox.drain(..length);
            self.state.owed -= 1;
            replies.push(reply?);
        }
        Ok(())
    }

    /// Sends a request. Its reply precedes those to later requests.
    pub(super) fn send(&mut self, request: &Request) -> Result<(), FrameError> {
        let frame = protocol::encode(request)?;
        if std::mem::replace(&mut self.state.broken, true) {
            return Err(io::Error::from(io::ErrorKind::TimedOut).into());
        }
        self.write_all(&frame)?;
        self.state.broken = false;
        self.state.owed += 1;
        Ok(())
    }

    /// Sends a request and waits for its reply, but stops waiting once one of `others` is readable;
    /// a later reply is dropped.
    pub(super) fn converse_unless(
        &mut self,
        request: &Request,
        others: &'a [BorrowedFd<'a>],
    ) -> Result<Option<Reply>, FrameError> {
        self.others = others;
        let mut replies = Vec::with_capacity(1);
        match self.converse(std::slice::from_ref(request), &mut replies) {
            Err(_) if self.turned_away => Ok(None),
            done => done.map(|()| replies.pop()),
        }
    }

    /// Waits until a whole frame is in the inbox. Returns its length in bytes.
    fn frame_length(&mut self) -> Result<usize, FrameError> {
        loop {
            if let Some(prefix) = self.state.inbox.first_chunk::<4>() {
                let length = u32::from_le_bytes(*prefix) as usize;
                if length > protocol::MAX_FRAME {
                    return Err(FrameError::TooLong(length));
                }
                if self.state.inbox.len() >= 4 + length {
                    return Ok(4 + length);
                }
            }
            match self.receive_chunk() {
                Ok(true) => {}
                Ok(false) => self.wait(PollFlags::IN)?,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && self.state.inbox.is_empty() => {
                    return Err(FrameError::Closed);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Receives everything that the agent has already sent, so that it can continue reading.
    fn receive(&mut self) -> io::Result<()> {
        while self.receive_chunk()? {
            if self.state.inbox.len() > INBOX_MAX {
                return Err(io::Error::other("the agent talks more than it was asked"));
            }
        }
        Ok(())
    }

    /// Receives some of the available bytes; returns false if there are none.
    fn receive_chunk(&mut self) -> io::Result<bool> {
        self.state.inbox.reserve(CHUNK);
        match retry_on_intr(|| read(self.socket, spare_capacity(&mut self.state.inbox))) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the socket is ready, or returns the reason why it never will be.
    fn wait(&mut self, ready: PollFlags) -> io::Result<()> {
        loop {
            interrupt::check().map_err(io::Error::other)?;
            if self.state.panicked.load(Relaxed) {
                self.until = self.until.min(Instant::now() + PANICKED_MAX);
            }
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let more = self.state.withheld.grant();
                if more.is_zero() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                self.until += more;
                continue;
            }
            let slice = left.min(SLICE);
            let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(slice.subsec_nanos()).max(1) };
            let (socket, monitor, other) = {
                let mut fds = vec![
                    PollFd::new(self.socket, ready),
                    PollFd::from_borrowed_fd(self.monitor.fd(), PollFlags::IN),
                ];
                // The rest of a partly written request must be sent.
                if !ready.contains(PollFlags::OUT) {
                    fds.extend(self.others.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)));
                }
                match poll(&mut fds, Some(&timeout)) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
                let other = fds[2..].iter().any(|fd| !fd.revents().is_empty());
                (fds[0].revents(), fds[1].revents(), other)
            };
            if !monitor.is_empty() {
                self.ending =
                    self.monitor.ending().map_err(|_| io::Error::from(io::ErrorKind::UnexpectedEof))?;
                if self.ending.is_some() {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
            }
            if !socket.is_empty() {
                return Ok(());
            }
            if other {
                self.turned_away = true;
                return Err(io::ErrorKind::Interrupted.into());
            }
        }
    }
}

impl Write for Port<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        loop {
            match (&mut &*self.socket).write(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(PollFlags::IN | PollFlags::OUT)?;
                    self.receive()?;
                }
                other => return other,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
