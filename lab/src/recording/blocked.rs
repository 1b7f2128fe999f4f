//! What tasks are doing when a deadline passes, as sysrq tells.

use super::Recorder;
use crate::{
    machine::Death,
    verdict::{Splat, blocked_stacks},
};
use protocol::{Request, WriteMode};
use std::time::{Duration, Instant};

/// How long an agent that may be gone is asked, on the reference machine.
const ASK_DEADLINE: Duration = Duration::from_millis(1500);

/// Blocked tasks, then what runs on each CPU.
const KEYS: [&str; 2] = ["w", "l"];

impl Recorder<'_> {
    /// The stacks of blocked tasks, and of what runs on each CPU.
    ///
    /// # Errors
    /// An agent that does not answer any more.
    pub(super) fn blocked(&mut self) -> Result<Vec<Splat>, Death> {
        self.until = Instant::now() + ASK_DEADLINE.mul_f64(self.scale);
        for key in KEYS {
            let path = "/proc/sysrq-trigger".to_owned();
            let write = Request::WriteFile { path, data: key.into(), mode: WriteMode::Truncate };
            // A kernel without sysrq says so by its errno, and has no stacks.
            self.call(&write)?;
        }
        Ok(blocked_stacks(&self.kernel_log()?))
    }
}
