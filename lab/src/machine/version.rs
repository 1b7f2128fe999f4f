//! The version of QEMU, and what follows from it.

use super::{Accelerator, qemu};
use crate::host::{prerequisites::Version, process::Tool};
use anyhow::{Context, Result};

/// The first QEMU whose CPUs never go on with their translation of code that another CPU has patched: it locks the
/// pages of code before it translates them.
const LOCKS_PAGES: &str = "8.1";

/// Returns what the QEMU on `PATH` prints of its version.
pub(crate) fn version_text() -> Result<String> {
    Tool::new(qemu::PROGRAM).arg("--version").run()
}

/// Returns the version of the QEMU on `PATH`.
pub(super) fn version() -> Result<Version> {
    Version::find(&version_text()?)
        .with_context(|| format!("`{} --version` prints no version", qemu::PROGRAM))
}

/// Returns whether a CPU of a guest may miss what another one has patched, if both run at once.
pub(crate) fn misses_patches() -> Result<bool> {
    misses_under(Accelerator::of_host(), &version()?)
}

fn misses_under(accelerator: Accelerator, version: &Version) -> Result<bool> {
    Ok(accelerator == Accelerator::Tcg && version.is_older_than(&LOCKS_PAGES.parse()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emulation_misses_patches_up_to_8_0() {
        let check = |accelerator, version: &str, expect: bool| {
            assert_eq!(misses_under(accelerator, &version.parse().unwrap()).unwrap(), expect, "{version}");
        };
        check(Accelerator::Tcg, "7.2.22", true);
        check(Accelerator::Tcg, "8.0.5", true);
        check(Accelerator::Tcg, "8.1.0", false);
        check(Accelerator::Tcg, "10.0.2", false);
        check(Accelerator::Kvm, "7.2.22", false);
    }
}
