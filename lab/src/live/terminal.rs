//! The terminal that the lab was started on, handed to whoever runs in the guest.

use anyhow::{Context, Result};
use protocol::Stdin;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{Stdin as HostStdin, stdin};

/// A terminal that passes every key on, until this is dropped.
pub(super) struct Raw {
    terminal: HostStdin,
    before: Termios,
}

impl Raw {
    /// From now on the lab's stdin passes every key on.
    pub(super) fn enter() -> Result<Raw> {
        let terminal = stdin();
        let before = tcgetattr(&terminal).context("cannot read the terminal's modes")?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&terminal, OptionalActions::Now, &raw).context("cannot set the terminal's modes")?;
        Ok(Raw { terminal, before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // A terminal that is gone needs no modes.
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
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
