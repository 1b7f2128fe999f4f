//! QEMU's process, started by the lab or by vmtest.

use super::vmtest::Boot;
use std::{io, time::Duration};

/// A running QEMU.
pub(super) enum Process {
    /// Started by the lab.
    Own(Box<duct::Handle>),
    /// Started by the vmtest crate.
    Vmtest(Box<Boot>),
}

impl Process {
    /// Returns its PID.
    pub(super) fn id(&self) -> u32 {
        match self {
            Process::Own(handle) => handle.pids().first().copied().unwrap_or_default(),
            Process::Vmtest(boot) => boot.qemu_id(),
        }
    }

    /// Kills it.
    pub(super) fn kill(&self) -> io::Result<()> {
        match self {
            Process::Own(handle) => handle.kill(),
            Process::Vmtest(boot) => boot.kill(),
        }
    }

    /// Returns its exit status, if it exits within this time.
    pub(super) fn end(&self, within: Duration) -> Option<String> {
        match self {
            Process::Own(handle) => handle.wait_timeout(within).ok()?.map(|output| output.status.to_string()),
            Process::Vmtest(boot) => boot.end(within),
        }
    }

    /// Waits until it has exited. The caller must have killed it.
    pub(super) fn wait(&self) {
        // Nothing is left to do if this fails: the process has already exited.
        match self {
            Process::Own(handle) => drop(handle.wait()),
            Process::Vmtest(boot) => boot.wait(),
        }
    }
}
