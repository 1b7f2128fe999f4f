//! The terminal of a child: a new pty, of which the agent has the master.

use crate::stream::{Feed, Output};
use rustix::{
    fd::{AsFd, OwnedFd},
    io::Errno,
    process::{ioctl_tiocsctty, setsid},
    pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use std::{
    io,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

/// The agent's end of a pty.
#[derive(Debug)]
pub(crate) struct Terminal {
    master: OwnedFd,
}

impl Terminal {
    /// Makes `command` run on a new terminal, in its own session.
    pub(crate) fn give(command: &mut Command, rows: u16, columns: u16) -> io::Result<Terminal> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        unlockpt(&master)?;
        resize(&master, rows, columns)?;
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let slave = ioctl_tiocgptpeer(&master, flags)?;
        command.stdin(slave.try_clone()?).stdout(slave.try_clone()?).stderr(Stdio::from(slave));
        // SAFETY: between fork and exec the closure makes two system calls and touches no memory that
        // another thread could hold.
        unsafe {
            command.pre_exec(|| {
                setsid()?;
                ioctl_tiocsctty(rustix::stdio::stdin())?;
                Ok(())
            });
        }
        Ok(Terminal { master })
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
