//! The version or commit that a suite or a branch resolved to, remembered in the cache.
//!
//! The same kernel is thereby built later, and without network access. [`forget`] makes the next build
//! look again.

use super::{small_file::read_capped, spec::SourceSpec};
use crate::{
    cache::{Cache, KeyBuilder},
    host::whole::write_whole,
};
use anyhow::Result;
use fs_err as fs;
use std::path::PathBuf;

/// Returns what `spec` resolved to when it was first looked up.
pub(super) fn resolve(
    cache: &Cache,
    spec: &SourceSpec,
    look_up: impl FnOnce() -> Result<String>,
) -> Result<String> {
    if let Some(known) = known(cache, spec)? {
        return Ok(known);
    }
    let found = look_up()?;
    write_whole(&remembered(cache, spec)?, format!("{found}\n"))?;
    Ok(found)
}

/// Returns what `spec` resolved to, if it was looked up before.
pub(super) fn known(cache: &Cache, spec: &SourceSpec) -> Result<Option<String>> {
    let text = read_capped(&remembered(cache, spec)?, 4096).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    Ok(matches!(lines[..], [line] if !line.is_empty()).then(|| lines[0].to_owned()))
}

/// Returns the file that records what `spec` resolved to.
pub(super) fn remembered(cache: &Cache, spec: &SourceSpec) -> Result<PathBuf> {
    let (label, inputs) = match spec {
        SourceSpec::DebianImage { suite, package, version } => {
            let pinned = version.as_ref().map_or(String::new(), |version| version.as_str().to_owned());
            (format!("{suite}-{package}-{pinned}"), [suite, &format!("{package}={pinned}")])
        }
        SourceSpec::Debian { suite, package, version: None } => {
            (format!("{suite}-{package}"), [suite, package])
        }
        SourceSpec::Git { url, reference } => ("git".to_owned(), [url, reference]),
        // These need no resolution; no such file is ever written.
        SourceSpec::Debian { version: Some(_), .. } | SourceSpec::Tree(_) | SourceSpec::Tarball { .. } => {
            ("itself".to_owned(), [&String::new(), &String::new()])
        }
    };
    let key = KeyBuilder::default().input("0", inputs[0]).input("1", inputs[1]).finish(&label);
    Ok(cache.directory("sources")?.join(format!("{}.resolved", key.as_str())))
}

/// Forgets what a suite or a branch resolved to, so that it is looked up again.
pub(super) fn forget(cache: &Cache, spec: &SourceSpec) -> Result<()> {
    match fs::remove_file(remembered(cache, spec)?) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
