//! A restored machine that is stopped until it is needed.
//!
//! It can wait for any length of time: its CPUs and clocks are stopped, and it costs the host no
//! time, only 26 MB of private memory. Once resumed, it is like any other machine of its snapshot,
//! however long it waited. The agent then greets again, so that the speed it reports is the guest's
//! current speed.

use super::{CONSOLE, Death, LOG, Machine, executed, snapshot::RESTORE_DEADLINE};
use anyhow::{Context, Result};
use fs_err as fs;
use qapi::qmp;
use std::path::Path;

/// A machine whose guest is stopped.
pub struct StandbyMachine(pub(super) Machine);

impl StandbyMachine {
    /// Resumes the guest and waits for the agent.
    pub fn resume(mut self) -> Result<Machine, Death> {
        self.0.monitor.execute(&qmp::cont {}).context("QEMU cannot resume the guest").map_err(Death::Lab)?;
        self.0.greet(RESTORE_DEADLINE)?;
        Ok(self.0)
    }

    /// Lets the agent greet and stops the guest again. This pays the one-time cost of a first
    /// answer, mostly QEMU's translation of code: on an idle 2 GHz host, waking then took 9 ms
    /// instead of 37, nearly all of it the loop that measures the guest.
    pub(super) fn warm(self) -> Result<StandbyMachine, Death> {
        let mut machine = self.resume()?;
        machine.monitor.execute(&qmp::stop {}).context("QEMU cannot stop the guest").map_err(Death::Lab)?;
        Ok(StandbyMachine(machine))
    }

    /// Moves its files to `directory`, and later output as well.
    pub fn move_to(&mut self, directory: &Path) -> Result<()> {
        let machine = &mut self.0;
        fs::rename(machine.directory.join(LOG), directory.join(LOG))?;
        executed::move_to(&machine.directory, directory)?;
        machine.console.move_to(&directory.join(CONSOLE))?;
        machine.directory = directory.to_owned();
        Ok(())
    }
}
