//! Unpacks Debian binary packages, without running maintainer scripts or installing anything.

use super::process::Tool;
use anyhow::{Context, Result};
use std::path::Path;

/// Unpacks the files of the package `deb` into the directory `into`, creating it if necessary.
pub fn unpack(deb: &Path, into: &Path) -> Result<()> {
    Tool::new("dpkg-deb").arg("--extract").arg(deb).arg(into).env("LC_ALL", "C").run().with_context(
        || {
            format!(
                "cannot unpack the package `{}` into `{}`; check that the download is complete and the disk is not full",
                deb.display(),
                into.display()
            )
        },
    )?;
    Ok(())
}
