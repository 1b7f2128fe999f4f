//! The errors of apt, with a hint on what to do.

use crate::host::{
    interrupt::Interrupted,
    outage::{DISK_FULL, NETWORK, Outage},
    sources::MIRROR_VARIABLE,
};
use anyhow::Error;

/// Messages of apt and hints for them, checked in this order.
const HINTS: [(&str, &str); 14] = [
    (DISK_FULL, "the disk of the cache is full; free some space and try again"),
    ("Could not resolve", NETWORK),
    ("failure resolving", NETWORK),
    ("Could not connect", NETWORK),
    ("Connection failed", NETWORK),
    ("Connection timed out", NETWORK),
    ("is expired", "the mirror is out of date for this suite; set FTRACE_LAB_DEBIAN_MIRROR to another one"),
    ("is not valid yet", "check the clock of this machine"),
    ("NO_PUBKEY", "the keyring is too old for this suite; upgrade the package debian-archive-keyring"),
    ("does not have a Release file", "the mirror does not have this suite; check its name"),
    ("Hash Sum mismatch", "the download is corrupt; try again"),
    ("unexpected size", "the download was truncated or the mirror is changing; try again"),
    ("Undetermined Error", "the connection was interrupted; try again"),
    ("404  Not Found", "the mirror changed while it was read; try again"),
];

/// Adds the failed operation and a hint to an error of apt. The result is an [`Outage`] if `is_outage` says so of the
/// hint.
pub(super) fn explain(error: Error, operation: &str, is_outage: impl Fn(Option<&str>) -> bool) -> Error {
    if error.is::<Interrupted>() {
        return error;
    }
    let said = format!("{error:#}");
    let hint = HINTS.iter().find(|(marker, _)| said.contains(marker)).map(|(_, hint)| *hint);
    let message = match hint {
        Some(hint) => format!("{operation}: {hint}"),
        None => format!("{operation} (`{MIRROR_VARIABLE}` sets another mirror)"),
    };
    if is_outage(hint) { error.context(Outage(message)) } else { error.context(message) }
}

/// Returns the first `E:` line of apt's output, otherwise its last line.
pub(super) fn complaint(error: &Error) -> String {
    let said = format!("{error:#}");
    let lines = || said.lines().map(str::trim);
    lines().find(|line| line.starts_with("E:")).or(lines().next_back()).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn an_error_of_apt_says_what_to_do() {
        let error = anyhow!("E: Release file for http://mirror.test/sid/InRelease is expired (invalid)");
        let explained = |error: Error| explain(error, "cannot read", |hint| hint == Some(NETWORK));
        let error = explained(error);
        let text = format!("{error:#}");
        assert!(text.starts_with("cannot read: the mirror is out of date"), "{text}");
        assert!(!error.is::<Outage>());
        assert!(explained(anyhow!("E: Could not resolve 'mirror.test'")).is::<Outage>());
        assert!(explained(Interrupted.into()).is::<Interrupted>());
    }
}
