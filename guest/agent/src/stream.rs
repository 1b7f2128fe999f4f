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
    kept: Vec<u8>,
    dropped: u64,
}

impl Output {
    /// Keeps the first `limit` bytes of what comes through `pipe`.
    pub(crate) fn new(pipe: OwnedFd, limit: usize) -> io::Result<Output> {
        never_block(&pipe)?;
        Ok(Output { pipe: Some(pipe), limit, kept: Vec::new(), dropped: 0 })
    }

    /// Takes one chunk of what is there. Not all of it: a child that writes without end must not
    /// keep the agent here.
    pub(crate) fn pump(&mut self) {
        let Some(pipe) = &self.pipe else { return };
        let mut chunk = [0; CHUNK];
        match read(pipe, &mut chunk) {
            Ok(n) if n > 0 => {
                let keep = n.min(self.limit.saturating_sub(self.kept.len()));
                self.kept.extend_from_slice(&chunk[..keep]);
                self.dropped += (n - keep) as u64;
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            // End of file; a pipe has no other errors.
            _ => self.pipe = None,
        }
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

    /// As [`Output::take`]; from now on nothing is kept.
    pub(crate) fn end(&mut self) -> (Vec<u8>, u64) {
        self.limit = 0;
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
}

impl Feed {
    /// Will write to `pipe`.
    pub(crate) fn new(pipe: OwnedFd) -> io::Result<Feed> {
        never_block(&pipe)?;
        Ok(Feed { pipe })
    }

    /// Writes all of it or nothing, which holds up to PIPE_BUF bytes.
    pub(crate) fn write(&self, data: &[u8]) -> Result<(), Errno> {
        loop {
            match write(&self.pipe, data) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}

fn never_block(pipe: impl AsFd) -> io::Result<()> {
    fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
    Ok(())
}
