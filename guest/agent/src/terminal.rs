//! A terminal of a child's own: a new pty, whose master is the agent's.

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

/// The agent's end.
#[derive(Debug)]
pub(crate) struct Terminal {
    master: OwnedFd,
}

impl Terminal {
    /// Gives a command that is about to be run a new terminal, in a session of its own.
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

    /// What the child writes, up to `limit`, and what it reads.
    pub(crate) fn streams(self, limit: usize) -> io::Result<(Output, Feed)> {
        let output = Output::waiting(self.master.try_clone()?, limit)?;
        Ok((output, Feed::new(self.master)?))
    }
}

/// Tells a terminal its size, and those in its foreground with SIGWINCH.
pub(crate) fn resize(master: impl AsFd, rows: u16, columns: u16) -> Result<(), Errno> {
    tcsetwinsize(master, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })
}
