//! All that the agent waits for, in one epoll set.

use rustix::{
    event::{Timespec, epoll},
    fd::{AsFd, OwnedFd},
    io::Errno,
};
use std::{io, time::Duration};

/// The source of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The lab's port: data, room to write, or a change of connection.
    Port,
    /// A process ended, possibly an orphan.
    Orphans,
    /// A child: its end, or one of its pipes.
    Child(u32),
}

impl Source {
    fn token(self) -> u64 {
        match self {
            Source::Port => 0,
            Source::Orphans => 1,
            Source::Child(id) => 2 + u64::from(id),
        }
    }

    fn of_token(token: u64) -> Source {
        match token {
            0 => Source::Port,
            1 => Source::Orphans,
            // Tokens come from `token` only, so this fits.
            child => Source::Child(u32::try_from(child - 2).unwrap_or(u32::MAX)),
        }
    }
}

/// The set of file descriptors to wait for.
#[derive(Debug)]
pub(crate) struct Events {
    epoll: OwnedFd,
}

impl Events {
    pub(crate) fn new() -> io::Result<Events> {
        Ok(Events { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Reports `fd` while it is readable or hung up, until it is closed.
    pub(crate) fn watch_reading(&self, fd: impl AsFd, source: Source) -> io::Result<()> {
        self.add(fd, source, epoll::EventFlags::IN)
    }

    /// Reports `fd` while it is writable, until it is closed.
    pub(crate) fn watch_writing(&self, fd: impl AsFd, source: Source) -> io::Result<()> {
        self.add(fd, source, epoll::EventFlags::OUT)
    }

    /// Reports `fd` once per change of its state (edge-triggered).
    pub(crate) fn watch_changes(&self, fd: impl AsFd, source: Source) -> io::Result<()> {
        self.add(fd, source, epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET)
    }

    fn add(&self, fd: impl AsFd, source: Source, flags: epoll::EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, epoll::EventData::new_u64(source.token()), flags)?)
    }

    /// Waits for an event, at most for `limit`, and returns the sources.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> io::Result<Vec<Source>> {
        // epoll counts in milliseconds; a wait of nearly nothing must not become a spin.
        let limit = limit.map(|limit| Timespec {
            tv_sec: limit.as_secs().min(1_000_000) as i64,
            tv_nsec: i64::from(limit.subsec_nanos()),
        });
        let mut events = Vec::with_capacity(16);
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(events.iter().map(|event| Source::of_token(event.data.u64())).collect())
    }
}
