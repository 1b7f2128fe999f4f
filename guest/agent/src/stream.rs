//! One end of a pipe to a child: output that is kept up to a limit, input until it was taken.

use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::{Errno, read, write},
};
use std::io;

/// How much is read at a time: a pipe's usual capacity.
const CHUNK: usize = 64 * 1024;

/// A child's stdout or stderr.
#[derive(Debug)]
pub(crate) struct Output {
    pipe: Option<OwnedFd>,
    limit: usize,
    full: Full,
    kept: Vec<u8>,
    dropped: u64,
}

/// What becomes of output beyond the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Full {
    /// It is read, counted and dropped.
    Drop,
    /// It stays where it is, and its writer waits.
    Wait,
}

impl Output {
    /// Keeps the first `limit` bytes of what comes through `pipe`.
    pub(crate) fn new(pipe: OwnedFd, limit: usize) -> io::Result<Output> {
        Output::open(pipe, limit, Full::Drop)
    }

    /// Keeps at most `limit` bytes at a time; whoever writes more waits until they were taken.
    pub(crate) fn waiting(pipe: OwnedFd, limit: usize) -> io::Result<Output> {
        Output::open(pipe, limit, Full::Wait)
    }

    /// Of a child that has no such output.
    pub(crate) fn closed() -> Output {
        Output { pipe: None, limit: 0, full: Full::Drop, kept: Vec::new(), dropped: 0 }
    }

    fn open(pipe: OwnedFd, limit: usize, full: Full) -> io::Result<Output> {
        never_block(&pipe)?;
        Ok(Output { pipe: Some(pipe), limit, full, kept: Vec::new(), dropped: 0 })
    }

    /// Takes one chunk of what is there. Not all of it: a child that writes without end must not
    /// keep the agent here. Where output waits, it is all there is room for.
    pub(crate) fn pump(&mut self) {
        match self.full {
            Full::Drop => drop(self.pump_chunk(CHUNK)),
            Full::Wait => while self.pump_chunk(self.limit.saturating_sub(self.kept.len())) {},
        }
    }

    /// Takes at most so many bytes, and tells whether there may be more.
    fn pump_chunk(&mut self, most: usize) -> bool {
        let Some(pipe) = self.pipe.as_ref().filter(|_| most > 0) else { return false };
        let mut chunk = [0; CHUNK];
        match read(pipe, &mut chunk[..most.min(CHUNK)]) {
            Ok(n) if n > 0 => {
                let keep = n.min(self.limit.saturating_sub(self.kept.len()));
                self.kept.extend_from_slice(&chunk[..keep]);
                self.dropped += (n - keep) as u64;
                return true;
            }
            Err(Errno::INTR) => return true,
            Err(Errno::AGAIN) => {}
            // End of file, which a terminal that nobody has open any more tells as EIO.
            _ => self.pipe = None,
        }
        false
    }

    /// Whether there is something to take.
    pub(crate) fn has_news(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Whether everyone who could write to it is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.pipe.is_none()
    }

    /// What was kept so far, and how many bytes were not.
    pub(crate) fn so_far(&self) -> (Vec<u8>, u64) {
        (self.kept.clone(), self.dropped)
    }

    /// What was kept since it was last taken, and how many bytes were not.
    pub(crate) fn take(&mut self) -> (Vec<u8>, u64) {
        (std::mem::take(&mut self.kept), std::mem::take(&mut self.dropped))
    }

    /// As [`Output::take`]; from now on nothing is kept, and nobody waits.
    pub(crate) fn end(&mut self) -> (Vec<u8>, u64) {
        self.limit = 0;
        if self.full == Full::Wait {
            self.pipe = None;
        }
        self.take()
    }

    /// The pipe, as long as it is open.
    pub(crate) fn pipe(&self) -> Option<&OwnedFd> {
        self.pipe.as_ref()
    }
}

/// A child's stdin.
#[derive(Debug)]
pub(crate) struct Input {
    pipe: Option<OwnedFd>,
    data: Vec<u8>,
    written: usize,
}

impl Input {
    /// Will write `data`, then close.
    pub(crate) fn new(pipe: OwnedFd, data: Vec<u8>) -> io::Result<Input> {
        never_block(&pipe)?;
        Ok(Input { pipe: Some(pipe), data, written: 0 })
    }

    /// Gives what the pipe takes now.
    pub(crate) fn pump(&mut self) {
        while let Some(pipe) = &self.pipe {
            if self.written == self.data.len() {
                self.close();
                return;
            }
            match write(pipe, &self.data[self.written..]) {
                Ok(n) => self.written += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // Nobody will read the rest: EPIPE.
                Err(_) => self.close(),
            }
        }
    }

    /// Ends it: end of file, for whoever reads.
    pub(crate) fn close(&mut self) {
        self.pipe = None;
        self.data = Vec::new();
    }

    /// The pipe, as long as it is open.
    pub(crate) fn pipe(&self) -> Option<&OwnedFd> {
        self.pipe.as_ref()
    }
}

/// A child's stdin that stays open.
#[derive(Debug)]
pub(crate) struct Feed {
    pipe: OwnedFd,
    /// What a terminal had no room for.
    rest: Vec<u8>,
}

impl Feed {
    /// Will write to `pipe`.
    pub(crate) fn new(pipe: OwnedFd) -> io::Result<Feed> {
        never_block(&pipe)?;
        Ok(Feed { pipe, rest: Vec::new() })
    }

    /// Takes all of it or nothing. A pipe does so by itself up to PIPE_BUF bytes.
    pub(crate) fn write(&mut self, data: &[u8]) -> Result<(), Errno> {
        self.pump()?;
        if !self.rest.is_empty() {
            return Err(Errno::AGAIN);
        }
        let written = write_some(&self.pipe, data)?;
        self.rest = data[written..].to_vec();
        Ok(())
    }

    /// Gives what there is room for now.
    pub(crate) fn pump(&mut self) -> Result<(), Errno> {
        if !self.rest.is_empty() {
            match write_some(&self.pipe, &self.rest) {
                Ok(written) => drop(self.rest.drain(..written)),
                Err(Errno::AGAIN) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// The agent's end of it.
    pub(crate) fn pipe(&self) -> &OwnedFd {
        &self.pipe
    }
}

fn write_some(pipe: &OwnedFd, data: &[u8]) -> Result<usize, Errno> {
    loop {
        match write(pipe, data) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

fn never_block(pipe: impl AsFd) -> io::Result<()> {
    fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
    Ok(())
}
