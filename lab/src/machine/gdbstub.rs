//! QEMU's gdbstub: a debugger's way to the guest's kernel.
//!
//! Its end is a new pseudo terminal of the host's. No port is open, no socket lies anywhere, and it is
//! gone with QEMU.

use super::{Death, Machine, port::Port};
use anyhow::{Context, Result, ensure};
use protocol::Request;
use qapi::qmp;
use serde_json::json;
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

/// What QEMU knows the pseudo terminal as.
const TERMINAL: &str = "gdb";

/// How long a request may take to be on its way.
const SEND_DEADLINE: Duration = Duration::from_secs(10);

impl Machine {
    /// Stops the guest, and gives the file that `target remote` opens. The guest goes on when the debugger
    /// lets it.
    pub fn gdbstub(&mut self) -> Result<PathBuf> {
        self.monitor.execute(&qmp::stop {}).context("QEMU cannot stop the guest")?;
        let backend = serde_json::from_value(json!({ "type": "pty", "data": {} }))?;
        let added = self.monitor.execute(&qmp::chardev_add { backend, id: TERMINAL.to_owned() });
        let added = added.context("QEMU cannot make a terminal for gdb")?;
        let path = added.pty.context("QEMU does not say where its terminal for gdb is")?;
        let command_line = format!("gdbserver chardev:{TERMINAL}");
        let said = self.monitor.execute(&qmp::human_monitor_command { cpu_index: None, command_line })?;
        // As QEMU 7.2 words it; a refusal begins with "Could not".
        ensure!(said.starts_with("Waiting for gdb"), "QEMU has no gdbstub: {}", said.trim());
        Ok(path.into())
    }

    /// Asks one thing whose answer nobody will know; a stopped guest does it once it goes on.
    pub fn ask(&mut self, request: &Request) -> Result<(), Death> {
        let until = Instant::now() + SEND_DEADLINE;
        let mut port = Port::new(&self.port, &mut self.monitor, &mut self.port_state, until);
        port.send(request).map_err(|error| Death::AgentLost(error.to_string()))
    }
}
