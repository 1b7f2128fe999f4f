//! How a machine ends before its work is done. Each way has a name.

use crate::host::process::tail;
use std::time::Duration;

/// Why a machine gives no more answers.
#[derive(Debug, thiserror::Error)]
pub enum Death {
    /// The kernel panicked: pvpanic told, or the console when a deadline had passed.
    #[error("the kernel panicked: {message}")]
    Panic {
        /// The console's own words, the first line of the panic.
        message: String,
        /// Whether its memory was written to the machine's directory, else why it was not.
        dumped: anyhow::Result<()>,
    },
    /// The guest switched itself off.
    #[error("the guest powered itself off{}", said(console))]
    PoweredOff {
        /// The end of the console: an agent without a port says so there.
        console: String,
    },
    /// The guest rebooted itself.
    #[error("the guest rebooted")]
    Rebooted,
    /// QEMU ended by itself.
    #[error("QEMU ended: {status}{}", said(last_words))]
    QemuEnded {
        /// Its exit status.
        status: String,
        /// What it wrote to stderr.
        last_words: String,
    },
    /// The agent closed its port, or answered nonsense.
    #[error("the agent is lost: {0}")]
    AgentLost(String),
    /// No word from the agent within the boot deadline.
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
        /// By how much it was longer for this guest.
        scale: f64,
        /// What was waited for.
        request: String,
    },
    /// The lab was told to stop.
    #[error("interrupted")]
    Interrupted,
    /// The lab could not do its part.
    #[error("{0:#}")]
    Lab(anyhow::Error),
}

impl Death {
    /// Whether it is the lab's doing or that of whoever stopped it, and not the guest's.
    pub fn is_labs_own(&self) -> bool {
        matches!(self, Death::Lab(_) | Death::Interrupted)
    }

    /// What the lab could not find out of it, and why.
    pub fn note(&self) -> Option<String> {
        match self {
            Death::Panic { dumped: Err(error), .. } => {
                Some(format!("the guest's memory was not dumped: {error:#}"))
            }
            _ => None,
        }
    }
}

/// `3 s`, and what came of it on a slow guest.
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

/// A bounded tail of someone's output, on lines of its own.
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
