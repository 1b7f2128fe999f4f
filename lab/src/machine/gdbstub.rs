//! QEMU's gdbstub, through which a debugger accesses the guest's kernel.
//!
//! It uses a new pseudoterminal of the host. No port is open, there is no socket file, only this
//! user can open it, and it disappears with QEMU.

use super::{Death, Machine, port::Port};
use anyhow::{Context, Result, ensure};
use fs_err as fs;
use protocol::Request;
use qapi::qmp;
use serde_json::json;
use std::{
    fs::Permissions,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    time::{Duration, Instant},
};

/// QEMU's name for the pseudoterminal.
const TERMINAL: &str = "gdb";

/// The time limit for sending a request.
const SEND_DEADLINE: Duration = Duration::from_secs(10);

impl Machine {
    /// Stops the guest and returns the path for `target remote`. The guest resumes when the
    /// debugger continues it.
    pub fn gdbstub(&mut self) -> Result<PathBuf> {
        self.monitor.execute(&qmp::stop {}).context("QEMU cannot stop the guest")?;
        let backend = serde_json::from_value(json!({ "type": "pty", "data": {} }))?;
        let added = self.monitor.execute(&qmp::chardev_add { backend, id: TERMINAL.to_owned() });
        let added = added.context("QEMU cannot create a pseudoterminal for gdb")?;
        let path = added.pty.context("QEMU does not report the path of its pseudoterminal for gdb")?;
        // By default, Debian lets the group tty write to it.
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        let command_line = format!("gdbserver chardev:{TERMINAL}");
        let said = self.monitor.execute(&qmp::human_monitor_command { cpu_index: None, command_line })?;
        // The wording of QEMU 7.2; an error begins with "Could not".
        ensure!(said.starts_with("Waiting for gdb"), "QEMU cannot start its gdbstub: {}", said.trim());
        Ok(path.into())
    }

    /// Sends a request without waiting for the answer. A stopped guest executes it once it is
    /// resumed.
    pub fn ask(&mut self, request: &Request) -> Result<(), Death> {
        let until = Instant::now() + SEND_DEADLINE;
        let mut port = Port::new(&self.port, &mut self.monitor, &mut self.port_state, until);
        port.send(request).map_err(|error| Death::AgentLost(error.to_string()))
    }
}
