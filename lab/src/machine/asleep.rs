//! A machine that was restored and stopped until it is needed.
//!
//! It can wait as long as it has to: its CPUs and its clocks stand, and it costs the host memory, 26 MB of
//! its own, and no time. Woken, it is like any other machine of its snapshot, however long it waited. The
//! agent greets again then, so how fast the guest is said to be is what it is at that time.

use super::{CONSOLE, Death, LOG, Machine, snapshot::RESTORE_DEADLINE};
use anyhow::{Context, Result};
use qapi::qmp;
use std::{fs, path::Path};

/// A machine whose guest waits to be let go on.
pub struct Asleep(pub(super) Machine);

impl Asleep {
    /// Lets the guest go on, and waits for the agent.
    pub fn wake(mut self) -> Result<Machine, Death> {
        self.0.monitor.execute(&qmp::cont {}).context("QEMU cannot start the machine").map_err(Death::Lab)?;
        self.0.greet(RESTORE_DEADLINE)?;
        Ok(self.0)
    }

    /// Has the agent greet, and stops the guest again. What the way to an answer costs the first time,
    /// most of it QEMU's translation of code, is paid then: on an idle host of 2 GHz waking took 9 ms
    /// instead of 37, nearly all of it the loop that measures the guest.
    pub(super) fn warm(self) -> Result<Asleep, Death> {
        let mut machine = self.wake()?;
        machine.monitor.execute(&qmp::stop {}).context("QEMU cannot stop the machine").map_err(Death::Lab)?;
        Ok(Asleep(machine))
    }

    /// Moves its files to `directory`, where everything that is still to come goes, too.
    pub fn move_to(&mut self, directory: &Path) -> Result<()> {
        let cannot = || format!("cannot move a machine's files to `{}`", directory.display());
        let machine = &mut self.0;
        fs::rename(machine.directory.join(LOG), directory.join(LOG)).with_context(cannot)?;
        machine.console.move_to(&directory.join(CONSOLE)).with_context(cannot)?;
        machine.directory = directory.to_owned();
        Ok(())
    }
}
