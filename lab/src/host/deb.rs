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

/// Unpacks the only one of `paths` that the package `deb` has, such as `./usr/bin/x`, to the file `to`, without
/// storing the others.
pub fn unpack_one(deb: &Path, paths: &[&str], to: &Path) -> Result<()> {
    // tar complains of the paths that are not there; the package itself must be whole.
    let script = r#"to=$1 deb=$2; shift 2
        dpkg-deb --fsys-tarfile "$deb" | tar -x --to-stdout -f - "$@" > "$to"
        [ "${PIPESTATUS[0]}" = 0 ] && [ -s "$to" ]"#;
    let tool = Tool::new("bash").args(["-c", script, "bash"]).arg(to).arg(deb).args(paths).env("LC_ALL", "C");
    tool.run()
        .with_context(|| format!("the package `{}` has none of {}", deb.display(), paths.join(", ")))?;
    Ok(())
}
