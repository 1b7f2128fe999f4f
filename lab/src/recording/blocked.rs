//! The stacks of tasks when a deadline passes, as sysrq prints them.

use super::link::Link;
use crate::{
    machine::{Death, Machine},
    splat::{Splat, blocked},
};
use protocol::{Request, WriteMode};
use std::io;

/// Blocked tasks, then the running task of each CPU.
const KEYS: [&str; 2] = ["w", "l"];

/// The same on the console, which shows the stacks only at the highest log level.
const CONSOLE_KEYS: &[u8] = b"9wl";

/// Returns the stacks of blocked tasks and of the running task of each CPU.
pub(super) fn blocked_tasks(link: &mut Link<'_>) -> Result<Vec<Splat>, Death> {
    for key in KEYS {
        let path = "/proc/sysrq-trigger".to_owned();
        let write = Request::WriteFile { path, data: key.into(), mode: WriteMode::Truncate };
        // On a kernel without sysrq this fails, and there are no stacks.
        link.call(&write)?;
    }
    Ok(blocked(&link.kernel_log()?))
}

/// The same when the agent, which may itself be blocked, does not answer.
pub(super) fn blocked_by_console(machine: &mut Machine) -> io::Result<Vec<Splat>> {
    Ok(blocked(&machine.press_sysrq(CONSOLE_KEYS)?))
}
