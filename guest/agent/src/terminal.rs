//! The terminal of a child: a new pty, of which the agent has the master.

use crate::{
    exec::Ends,
    stream::{Feed, Output},
};
use rustix::{
    fd::{AsFd, OwnedFd},
    io::Errno,
    pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use std::io;

/// The agent's end of a pty.
#[derive(Debug)]
pub(crate) struct Terminal {
    master: OwnedFd,
}

impl Terminal {
    /// Returns a new terminal and the child's ends of it.
    pub(crate) fn open(rows: u16, columns: u16) -> io::Result<(Terminal, Ends)> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        unlockpt(&master)?;
        resize(&master, rows, columns)?;
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let stdin = ioctl_tiocgptpeer(&master, flags)?;
        let (stdout, stderr) = (stdin.try_clone()?, stdin.try_clone()?);
        Ok((Terminal { master }, Ends { stdin, stdout, stderr, terminal: true }))
    }

    /// Returns the output of the child, kept up to `limit` bytes at a time, and its input.
    pub(crate) fn streams(self, limit: usize) -> io::Result<(Output, Feed)> {
        let output = Output::waiting(self.master.try_clone()?, limit)?;
        Ok((output, Feed::new(self.master)?))
    }
}

/// Sets the size of a terminal, which sends SIGWINCH to its foreground process group.
pub(crate) fn resize(master: impl AsFd, rows: u16, columns: u16) -> Result<(), Errno> {
    tcsetwinsize(master, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })
}
