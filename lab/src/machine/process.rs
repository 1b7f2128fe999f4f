//! QEMU's process, whoever started it.

use super::userland::Boot;
use std::{io, time::Duration};

/// A QEMU that was started.
pub(super) enum Process {
    /// By the lab.
    Own(Box<duct::Handle>),
    /// By the vmtest crate.
    Vmtest(Box<Boot>),
}

impl Process {
    /// Its process id.
    pub(super) fn id(&self) -> u32 {
        match self {
            Process::Own(handle) => handle.pids().first().copied().unwrap_or_default(),
            Process::Vmtest(boot) => boot.qemu_id(),
        }
    }

    /// Ends it at once.
    pub(super) fn kill(&self) -> io::Result<()> {
        match self {
            Process::Own(handle) => handle.kill(),
            Process::Vmtest(boot) => boot.kill(),
        }
    }

    /// How it ended, if it does so in this time.
    pub(super) fn end(&self, within: Duration) -> Option<String> {
        match self {
            Process::Own(handle) => handle.wait_timeout(within).ok()?.map(|output| output.status.to_string()),
            Process::Vmtest(boot) => boot.end(within),
        }
    }

    /// Waits until it is gone. It has to be killed before.
    pub(super) fn wait(&self) {
        // Nothing is left to do where this fails: the process is gone already.
        match self {
            Process::Own(handle) => drop(handle.wait()),
            Process::Vmtest(boot) => boot.wait(),
        }
    }
}
