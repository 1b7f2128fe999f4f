//! The ways in which a machine can end before its work is done.

use crate::host::process::tail;
use std::time::Duration;

/// The reason why a machine no longer answers.
#[derive(Debug, thiserror::Error)]
pub enum Death {
    /// The kernel panicked, as reported by pvpanic or shown on the console.
    #[error("the kernel panicked: {message}")]
    Panic {
        /// The reason from the first line of the panic on the console.
        message: String,
        /// Whether its memory was written to the machine's directory, or the error.
        dumped: anyhow::Result<()>,
    },
    /// The guest powered itself off.
    #[error("the guest powered itself off{}", said(console))]
    PoweredOff {
        /// The end of the console, where an agent without a port reports its error.
        console: String,
    },
    /// The guest rebooted itself.
    #[error("the guest rebooted")]
    Rebooted,
    /// QEMU exited by itself.
    #[error("QEMU ended: {status}{}", said(last_words))]
    QemuEnded {
        /// Its exit status.
        status: String,
        /// Its output on stderr.
        last_words: String,
    },
    /// The agent closed its port or sent an invalid reply.
    #[error("the agent is lost: {0}")]
    AgentLost(String),
    /// The agent did not greet within the boot deadline.
    #[error("the agent did not answer within {} s of boot{}", after.as_secs(), said(console))]
    NoBoot {
        /// The deadline.
        after: Duration,
        /// The end of the console.
        console: String,
    },
    /// A request was not answered in time.
    #[error("the deadline of {} passed, waiting for {request}", deadline(*after, *scale))]
    Deadline {
        /// The deadline, on the reference machine.
        after: Duration,
        /// The factor by which it was extended for this guest.
        scale: f64,
        /// The request that was not answered.
        request: String,
    },
    /// The lab was asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The lab itself failed.
    #[error("{0:#}")]
    Lab(anyhow::Error),
}

impl Death {
    /// Returns whether the lab or the user caused it, not the guest.
    pub fn is_labs_own(&self) -> bool {
        matches!(self, Death::Lab(_) | Death::Interrupted)
    }

    /// Returns a note on a failed dump of the guest's memory.
    pub fn note(&self) -> Option<String> {
        match self {
            Death::Panic { dumped: Err(error), .. } => {
                Some(format!("the guest's memory was not dumped: {error:#}"))
            }
            _ => None,
        }
    }
}

/// Returns `3 s`, with the extended deadline of a slow guest.
fn deadline(after: Duration, scale: f64) -> String {
    if after < Duration::from_millis(100) {
        return format!("{after:?}");
    }
    let shown = |seconds: f64| format!("{} s", (seconds * 10.0).round() / 10.0);
    let seconds = after.as_secs_f64();
    match shown(seconds * scale) {
        longer if longer == shown(seconds) => longer,
        longer => format!("{} ({longer} on this guest)", shown(seconds)),
    }
}

/// Returns the last lines of an output, each on its own line.
fn said(text: &str) -> String {
    if text.trim().is_empty() { String::new() } else { format!("\n{}", tail(text, 12)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_told_as_it_was_written_and_as_it_was() {
        let check = |millis, scale, expect| {
            assert_eq!(deadline(Duration::from_millis(millis), scale), expect);
        };
        check(3000, 1.0, "3 s");
        check(3000, 1.01, "3 s");
        check(3000, 1.5, "3 s (4.5 s on this guest)");
        check(1500, 2.0, "1.5 s (3 s on this guest)");
        check(5, 2.0, "5ms");
    }
}
