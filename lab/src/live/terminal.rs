//! The terminal that the lab was started on, handed to whoever runs in the guest.

use anyhow::{Context, Result};
use protocol::Stdin;
use rustix::{
    process::{getpgrp, setpgid},
    stdio,
    termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr, tcsetpgrp},
};
use std::{
    io::{self, Stdin as HostStdin, stdin},
    os::unix::process::CommandExt,
    process::Command,
};

/// The terminal's modes as they were, which come back when this is dropped.
pub(super) struct Modes {
    terminal: HostStdin,
    before: Termios,
}

impl Modes {
    /// Remembers them, whatever a program makes of them.
    pub(super) fn keep() -> Result<Modes> {
        let terminal = stdin();
        let before = tcgetattr(&terminal).context("cannot read the terminal's modes")?;
        Ok(Modes { terminal, before })
    }

    /// From now on every key is passed on as it is.
    pub(super) fn raw() -> Result<Modes> {
        let modes = Modes::keep()?;
        let mut raw = modes.before.clone();
        raw.make_raw();
        tcsetattr(&modes.terminal, OptionalActions::Now, &raw).context("cannot set the terminal's modes")?;
        Ok(modes)
    }
}

impl Drop for Modes {
    fn drop(&mut self) {
        // A terminal that is gone needs no modes.
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

/// The terminal's foreground, given to a program: Ctrl-C is for that alone, and not for the lab and its
/// QEMU. It comes back when this is dropped.
pub(super) struct Foreground;

impl Foreground {
    /// Gives it to a command that is about to be run, in a process group of its own.
    pub(super) fn give(command: &mut Command) -> Foreground {
        // SAFETY: between fork and exec the closure makes system calls only, and touches no memory that
        // another thread could hold.
        unsafe {
            command.pre_exec(|| {
                setpgid(None, None)?;
                take_foreground()
            });
        }
        Foreground
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        // A terminal that is gone has no foreground.
        let _ = take_foreground();
    }
}

/// Makes this process's group the terminal's foreground, which is not until then, and so would be stopped
/// by SIGTTOU.
fn take_foreground() -> io::Result<()> {
    // SAFETY: a disposition is a number, and the former one is put back before anything else can happen.
    let before = unsafe { libc::signal(libc::SIGTTOU, libc::SIG_IGN) };
    let taken = tcsetpgrp(stdio::stdin(), getpgrp());
    // SAFETY: as above.
    unsafe { libc::signal(libc::SIGTTOU, before) };
    Ok(taken?)
}

/// Rows and columns; those of a terminal of old where it does not say.
pub(super) fn size() -> (u16, u16) {
    match tcgetwinsize(stdin()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row, size.ws_col),
        _ => (24, 80),
    }
}

/// A terminal in the guest as large as this one.
pub(super) fn in_guest() -> Stdin {
    let (rows, columns) = size();
    Stdin::Terminal { rows, columns }
}
