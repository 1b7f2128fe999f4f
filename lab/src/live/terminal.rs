//! The lab's terminal, passed to a program in the guest or to gdb.

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

/// The terminal's modes, which are restored when this is dropped.
pub(super) struct Modes {
    terminal: HostStdin,
    before: Termios,
}

impl Modes {
    /// Saves the modes, to be restored whatever a program changes.
    pub(super) fn keep() -> Result<Modes> {
        let terminal = stdin();
        let before = tcgetattr(&terminal).context("cannot read the terminal's modes")?;
        Ok(Modes { terminal, before })
    }

    /// Sets raw mode, in which every key is passed on unchanged.
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
        // A terminal that no longer exists needs no modes.
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

/// The terminal's foreground process group, given to a program, so that Ctrl-C reaches only that
/// and not the lab and its QEMU. The lab takes the foreground back when this is dropped.
pub(super) struct Foreground;

impl Foreground {
    /// Makes a command that is about to run the foreground, in its own process group.
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
        // A terminal that no longer exists has no foreground.
        let _ = take_foreground();
    }
}

/// Makes this process's group the terminal's foreground. Ignores SIGTTOU, which would stop a
/// background process that does this.
fn take_foreground() -> io::Result<()> {
    // SAFETY: a disposition is a number, and the former one is restored before anything else can happen.
    let before = unsafe { libc::signal(libc::SIGTTOU, libc::SIG_IGN) };
    let taken = tcsetpgrp(stdio::stdin(), getpgrp());
    // SAFETY: as above.
    unsafe { libc::signal(libc::SIGTTOU, before) };
    Ok(taken?)
}

/// Returns rows and columns, or 24 × 80 if the terminal does not report them.
pub(super) fn size() -> (u16, u16) {
    match tcgetwinsize(stdin()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row, size.ws_col),
        _ => (24, 80),
    }
}

/// Returns a terminal for the guest with the size of this one.
pub(super) fn in_guest() -> Stdin {
    let (rows, columns) = size();
    Stdin::Terminal { rows, columns }
}
