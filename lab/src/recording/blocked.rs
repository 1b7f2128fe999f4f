//! What tasks are doing when a deadline passes, as sysrq tells.

use super::{Recorder, Recording};
use crate::{
    machine::Death,
    verdict::{Splat, blocked_stacks},
};
use protocol::{Request, WriteMode};
use std::time::Duration;

/// How long an agent that may be gone is asked, on the reference machine.
const ASK_DEADLINE: Duration = Duration::from_millis(1500);

/// Blocked tasks, then what runs on each CPU.
const KEYS: [&str; 2] = ["w", "l"];

impl Recorder<'_> {
    /// What the step that hangs has said so far, and where everything is.
    ///
    /// # Errors
    /// An agent that does not answer any more.
    pub(super) fn look_at_hang(&mut self, recording: &mut Recording) -> Result<(), Death> {
        self.give(ASK_DEADLINE);
        self.said_so_far(recording)?;
        recording.stacks = self.blocked()?;
        Ok(())
    }

    /// The stacks of blocked tasks, and of what runs on each CPU.
    fn blocked(&mut self) -> Result<Vec<Splat>, Death> {
        for key in KEYS {
            let path = "/proc/sysrq-trigger".to_owned();
            let write = Request::WriteFile { path, data: key.into(), mode: WriteMode::Truncate };
            // A kernel without sysrq says so by its errno, and has no stacks.
            self.call(&write)?;
        }
        Ok(blocked_stacks(&self.kernel_log()?))
    }
}
