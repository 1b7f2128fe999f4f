//! Polling for a condition.

use std::{
    thread,
    time::{Duration, Instant},
};

/// The maximum time to wait for a condition.
pub(crate) const PATIENCE: Duration = Duration::from_mins(5);

pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "no {what} within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(5));
    }
}
