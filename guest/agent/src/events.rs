//! Everything the agent ever waits for, in one epoll.

use rustix::{
    event::{Timespec, epoll},
    fd::{AsFd, OwnedFd},
    io::Errno,
};
use std::{io, time::Duration};

/// Who has something to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The lab's port: data, room, or a change of connection.
    Port,
    /// A process ended, perhaps one that is nobody's child any more.
    Orphans,
    /// Something of a child: its end or one of its pipes.
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

/// The set of file descriptors that are waited for.
#[derive(Debug)]
pub(crate) struct Events {
    epoll: OwnedFd,
}

impl Events {
    pub(crate) fn new() -> io::Result<Events> {
        Ok(Events { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Tells of `fd` as long as it is readable, or hung up. Closing it ends that.
    pub(crate) fn watch_reading(&self, fd: impl AsFd, source: Source) -> io::Result<()> {
        self.add(fd, source, epoll::EventFlags::IN)
    }

    /// Tells of `fd` as long as it takes data. Closing it ends that.
    pub(crate) fn watch_writing(&self, fd: impl AsFd, source: Source) -> io::Result<()> {
        self.add(fd, source, epoll::EventFlags::OUT)
    }

    /// Tells of `fd` once each time something about it changes.
    pub(crate) fn watch_changes(&self, fd: impl AsFd, source: Source) -> io::Result<()> {
        self.add(fd, source, epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET)
    }

    fn add(&self, fd: impl AsFd, source: Source, flags: epoll::EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, epoll::EventData::new_u64(source.token()), flags)?)
    }

    /// Waits until something happens or `limit` is over, and tells what.
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
