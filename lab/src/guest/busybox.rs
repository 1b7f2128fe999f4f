//! Debian's static busybox for arm64: the shell of `sh:` steps in a guest without a userland, and the tools
//! that its scripts call. One file of 2 MB, fetched when the first such scenario runs.
//!
//! Its version is the one that the suite had on the day of the download; remove the entry from the cache to
//! fetch the current one.

use crate::{
    cache::KeyBuilder,
    context::Lab,
    host::{apt::Apt, deb},
};
use anyhow::{Context, Result};
use fs_err as fs;
use std::path::PathBuf;

/// Its name among the workloads of a guest that has it.
pub(crate) const BUSYBOX: &str = "busybox";

const SUITE: &str = "trixie";
const PACKAGE: &str = "busybox-static:arm64";

/// The program in the package.
const PROGRAM: &str = "usr/bin/busybox";

/// Returns the program in the cache, fetched if necessary.
pub(super) fn obtain(lab: &Lab) -> Result<PathBuf> {
    let key = KeyBuilder::default().input("suite", SUITE).input("package", PACKAGE).finish(BUSYBOX);
    let waiting = || lab.progress.line("waiting for another process that is fetching busybox");
    let entry = lab.cache.entry("programs", &key, waiting, |into| {
        let unpacked = tempfile::tempdir_in(into)?;
        for package in Apt::open(lab)?.fetch(SUITE, &[PACKAGE], unpacked.path())? {
            deb::unpack(&package.deb, unpacked.path())?;
        }
        Ok(fs::rename(unpacked.path().join(PROGRAM), into.join(BUSYBOX))?)
    });
    let hint = || format!("no shell for `sh` without a userland: {PACKAGE} of Debian `{SUITE}` is missing");
    Ok(entry.with_context(hint)?.join(BUSYBOX))
}
