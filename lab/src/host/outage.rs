//! Failures of the network and of the disk, which are not the fault of what was requested.

use anyhow::Error;
use std::io;

/// A download failed, or the disk is full. A different kernel or package would have failed as well.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Outage(pub String);

/// The hint for network failures.
pub(crate) const NETWORK: &str = "check the network or the proxy, then try again";

/// What cargo prints if it cannot reach a registry.
const OF_CARGO: [&str; 3] = ["Could not resolve host", "spurious network error", "failed to download from"];

/// Turns an error of cargo into an [`Outage`] if it could not reach a registry.
pub(crate) fn of_cargo(error: Error) -> Error {
    let said = format!("{error:#}");
    match OF_CARGO.iter().any(|marker| said.contains(marker)) {
        true => error.context(Outage(format!("cannot download what cargo needs: {NETWORK}"))),
        false => error,
    }
}

/// What programs print for ENOSPC in the C locale.
pub(crate) const DISK_FULL: &str = "No space left on device";

/// Returns whether an [`Outage`] or a full disk caused the error.
pub fn is_outage(error: &Error) -> bool {
    let full = |cause: &io::Error| cause.kind() == io::ErrorKind::StorageFull;
    error.is::<Outage>() || error.chain().any(|cause| cause.downcast_ref().is_some_and(full))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn an_outage_is_found_below_other_errors() {
        let check = |error: Error, expect| assert_eq!(is_outage(&error.context("cannot build")), expect);
        check(Outage("cannot download `x`".into()).into(), true);
        check(anyhow!("curl failed").context(Outage("cannot download `x`".into())).context("x"), true);
        check(io::Error::from(io::ErrorKind::StorageFull).into(), true);
        check(io::Error::from(io::ErrorKind::NotFound).into(), false);
        check(anyhow!("cannot download `x`"), false);
    }
}
