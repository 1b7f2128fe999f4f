//! How a machine ends before its work is done. Each way has a name.

use crate::host::process::tail;
use std::time::Duration;

/// Why a machine gives no more answers.
#[derive(Debug, thiserror::Error)]
pub enum Death {
    /// The kernel panicked; pvpanic told.
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
    #[error("the deadline of {:.1} s passed, waiting for {request}", after.as_secs_f64())]
    Deadline {
        /// The deadline.
        after: Duration,
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

/// A bounded tail of someone's output, on lines of its own.
fn said(text: &str) -> String {
    if text.trim().is_empty() { String::new() } else { format!("\n{}", tail(text, 12)) }
}
