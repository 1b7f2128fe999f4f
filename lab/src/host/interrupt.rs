//! Handles SIGINT, SIGTERM and SIGHUP: every wait checks here a few times a second and returns an
//! ordinary error, so that every guard cleans up.

use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The lab was asked to stop.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Installs handlers that record SIGINT, SIGTERM and SIGHUP instead of killing the process.
pub fn install() -> anyhow::Result<()> {
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::SeqCst))?;
    Ok(())
}

/// Returns an error once the lab was asked to stop.
pub fn check() -> anyhow::Result<()> {
    if INTERRUPTED.load(Ordering::SeqCst) { Err(Interrupted.into()) } else { Ok(()) }
}
