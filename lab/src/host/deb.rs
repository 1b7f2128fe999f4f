//! Debian binary packages, merely unpacked: no maintainer script runs and nothing is installed.

use super::process::Tool;
use anyhow::{Context, Result};
use std::path::Path;

/// Unpacks the files of the package `deb` into the directory `into`, which is made if needed.
pub fn unpack(deb: &Path, into: &Path) -> Result<()> {
    Tool::new("dpkg-deb").arg("--extract").arg(deb).arg(into).env("LC_ALL", "C").run().with_context(
        || {
            format!(
                "cannot unpack the package `{}` into `{}`; is the download whole, and the disk not full?",
                deb.display(),
                into.display()
            )
        },
    )?;
    Ok(())
}
