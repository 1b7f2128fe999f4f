//! The agent's ends of the pipes to a child: output, kept up to a limit, and input, kept until it is
//! written.

use crate::vectored::{read, write};
use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::Errno,
};
use std::io;

/// The size of a read, in bytes: the default capacity of a pipe.
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

/// The treatment of output beyond the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Full {
    /// It is read, counted and dropped.
    Drop,
    /// It stays in the pipe, and its writer blocks.
    Wait,
}

impl Output {
    /// Keeps the first `limit` bytes that `pipe` delivers.
    pub(crate) fn new(pipe: OwnedFd, limit: usize) -> io::Result<Output> {
        Output::open(pipe, limit, Full::Drop)
    }

    /// Keeps at most `limit` bytes at a time; a process that writes more blocks until they are taken.
    pub(crate) fn waiting(pipe: OwnedFd, limit: usize) -> io::Result<Output> {
        Output::open(pipe, limit, Full::Wait)
    }

    /// The output of a child that has no such stream.
    pub(crate) fn closed() -> Output {
        Output { pipe: None, limit: 0, full: Full::Drop, kept: Vec::new(), dropped: 0 }
    }

    fn open(pipe: OwnedFd, limit: usize, full: Full) -> io::Result<Output> {
        never_block(&pipe)?;
        Ok(Output { pipe: Some(pipe), limit, full, kept: Vec::new(), dropped: 0 })
    }

    /// Reads one chunk of the available output, and no more: a child that writes endlessly must not
    /// keep the agent here. With [`Full::Wait`], reads all that there is room for.
    pub(crate) fn pump(&mut self) {
        match self.full {
            Full::Drop => drop(self.pump_chunk(CHUNK)),
            Full::Wait => while self.pump_chunk(self.limit.saturating_sub(self.kept.len())) {},
        }
    }

    /// Reads at most `most` bytes, and returns whether there may be more.
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
            // End of file, which a terminal reports as EIO once no process has it open.
            _ => self.pipe = None,
        }
        false
    }

    /// Returns whether there is output to take.
    pub(crate) fn has_news(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Returns whether no process can write to it any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.pipe.is_none()
    }

    /// Returns the output kept so far, and the number of bytes dropped.
    pub(crate) fn so_far(&self) -> (Vec<u8>, u64) {
        (self.kept.clone(), self.dropped)
    }

    /// Takes the output kept since the last call, and the number of bytes dropped.
    pub(crate) fn take(&mut self) -> (Vec<u8>, u64) {
        (std::mem::take(&mut self.kept), std::mem::take(&mut self.dropped))
    }

    /// Like [`Output::take`]; afterwards nothing is kept, and no writer blocks.
    pub(crate) fn end(&mut self) -> (Vec<u8>, u64) {
        self.limit = 0;
        if self.full == Full::Wait {
            self.pipe = None;
        }
        self.take()
    }

    /// Returns the pipe, while it is open.
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
    /// Prepares to write `data` and then close the pipe.
    pub(crate) fn new(pipe: OwnedFd, data: Vec<u8>) -> io::Result<Input> {
        never_block(&pipe)?;
        Ok(Input { pipe: Some(pipe), data, written: 0 })
    }

    /// Writes what the pipe has room for.
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
                // EPIPE: no process will read the rest.
                Err(_) => self.close(),
            }
        }
    }

    /// Closes the pipe: the reader gets end of file.
    pub(crate) fn close(&mut self) {
        self.pipe = None;
        self.data = Vec::new();
    }

    /// Returns the pipe, while it is open.
    pub(crate) fn pipe(&self) -> Option<&OwnedFd> {
        self.pipe.as_ref()
    }
}

/// A child's stdin that stays open.
#[derive(Debug)]
pub(crate) struct Feed {
    pipe: OwnedFd,
    /// The data that a terminal had no room for.
    rest: Vec<u8>,
}

impl Feed {
    /// Prepares to write to `pipe`.
    pub(crate) fn new(pipe: OwnedFd) -> io::Result<Feed> {
        never_block(&pipe)?;
        Ok(Feed { pipe, rest: Vec::new() })
    }

    /// Takes all of `data` or nothing. Up to PIPE_BUF bytes, a pipe does the same.
    pub(crate) fn write(&mut self, data: &[u8]) -> Result<(), Errno> {
        self.pump()?;
        if !self.rest.is_empty() {
            return Err(Errno::AGAIN);
        }
        let written = write_some(&self.pipe, data)?;
        self.rest = data[written..].to_vec();
        Ok(())
    }

    /// Writes as much of the rest as there is room for.
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

    /// Returns the agent's end of the pipe or terminal.
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
