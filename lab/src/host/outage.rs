//! Failures of the network and of the disk, which are not the fault of what was requested.

use anyhow::Error;
use std::io;

/// A download failed, or the disk is full. A different kernel or package would have failed as well.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Outage(pub String);

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
