//! One conversation with the agent: requests out, replies in, until a point in time.
//!
//! Reading and writing happen together, so that a guest with a full queue in one direction cannot
//! block the other. While it waits it watches the monitor and whether the lab was interrupted.

use super::monitor::{Ending, Monitor};
use crate::host::interrupt;
use protocol::{FrameError, Reply, Request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

/// How often a wait looks whether the lab was interrupted.
const SLICE: Duration = Duration::from_millis(100);

/// The most bytes of replies that wait while requests are written.
const INBOX_MAX: usize = 16 << 20;

/// A conversation in progress.
pub(super) struct Port<'a> {
    socket: &'a UnixStream,
    monitor: &'a mut Monitor,
    until: Instant,
    ending: Option<Ending>,
    /// What arrived while a request was still being written.
    inbox: Vec<u8>,
}

impl<'a> Port<'a> {
    pub(super) fn new(socket: &'a UnixStream, monitor: &'a mut Monitor, until: Instant) -> Port<'a> {
        Port { socket, monitor, until, ending: None, inbox: Vec::new() }
    }

    /// What the monitor says of the guest's end, once the conversation is broken.
    pub(super) fn ending(&mut self) -> Option<Ending> {
        // The port can be closed before the event that tells why was looked at.
        self.ending.or_else(|| self.monitor.ending().ok().flatten())
    }

    /// Sends every request and collects every reply.
    pub(super) fn converse(
        &mut self,
        requests: &[Request],
        replies: &mut Vec<Reply>,
    ) -> Result<(), FrameError> {
        for request in requests {
            self.write_all(&protocol::encode(request)?)?;
        }
        while replies.len() < requests.len() {
            replies.push(protocol::read_frame(self)?);
        }
        Ok(())
    }

    /// Takes what the agent has said already, so that it can go on reading.
    fn receive(&mut self) -> io::Result<()> {
        let mut chunk = [0; 64 << 10];
        loop {
            match (&mut &*self.socket).read(&mut chunk) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.inbox.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
            if self.inbox.len() > INBOX_MAX {
                return Err(io::Error::other("the agent talks more than it was asked"));
            }
        }
    }

    /// Waits until the socket is ready, or says why it never will be.
    fn wait(&mut self, ready: PollFlags) -> io::Result<()> {
        loop {
            interrupt::check().map_err(io::Error::other)?;
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let slice = left.min(SLICE);
            let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(slice.subsec_nanos()).max(1) };
            let (socket, monitor) = {
                let mut fds = [
                    PollFd::new(self.socket, ready),
                    PollFd::from_borrowed_fd(self.monitor.fd(), PollFlags::IN),
                ];
                match poll(&mut fds, Some(&timeout)) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
                (fds[0].revents(), fds[1].revents())
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
        }
    }
}

impl Read for Port<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.inbox.is_empty() {
            let count = self.inbox.len().min(buffer.len());
            buffer[..count].copy_from_slice(&self.inbox[..count]);
            self.inbox.drain(..count);
            return Ok(count);
        }
        loop {
            match (&mut &*self.socket).read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(PollFlags::IN)?,
                other => return other,
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
