//! Ctrl-C, a killed terminal, a polite kill: everything that waits asks here a few times a second,
//! and leaves by the ordinary way of errors, so that every guard cleans up behind itself.

use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The lab was told to stop.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// From now on SIGINT, SIGTERM and SIGHUP are noted instead of killing the process.
pub fn install() -> anyhow::Result<()> {
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::SeqCst))?;
    Ok(())
}

/// An error once the lab was told to stop.
pub fn check() -> anyhow::Result<()> {
    if INTERRUPTED.load(Ordering::SeqCst) { Err(Interrupted.into()) } else { Ok(()) }
}
