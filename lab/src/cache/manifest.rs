//! What an entry of the cache held when it was made, so that a damaged one is noticed.
//!
//! Sizes and times, not digests: asking costs a `stat` a file, on every run.

use anyhow::{Context, Result};
use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The manifest's file in the entry.
const NAME: &str = ".manifest";

/// Of a larger entry, such as a kernel's source, only its directory is looked for: whoever reads a
/// missing file of it says so.
const FILES_MAX: usize = 1000;

/// Writes the manifest of what is in `entry` now.
pub(super) fn write(entry: &Path) -> Result<()> {
    let mut files = Vec::new();
    collect(entry, &mut files).with_context(|| format!("cannot read `{}`", entry.display()))?;
    let mut lines = String::new();
    if files.len() <= FILES_MAX {
        for file in files {
            let line = line(entry, &file).with_context(|| format!("cannot read `{}`", file.display()))?;
            lines += &line;
        }
    }
    fs::write(entry.join(NAME), lines).with_context(|| format!("cannot write in `{}`", entry.display()))
}

/// Whether `entry` is there, complete, and no file of it was changed.
pub(super) fn is_whole(entry: &Path) -> bool {
    let Ok(manifest) = fs::read_to_string(entry.join(NAME)) else { return false };
    manifest.split_inclusive('\n').all(|written| {
        let name = written.trim_end_matches('\n').splitn(3, ' ').nth(2);
        name.is_some_and(|name| line(entry, &entry.join(name)).is_ok_and(|now| now == written))
    })
}

/// Size in bytes, seconds of its last change, path.
fn line(entry: &Path, file: &Path) -> io::Result<String> {
    let data = fs::symlink_metadata(file)?;
    let name = file.strip_prefix(entry).unwrap_or(file).to_string_lossy();
    Ok(format!("{} {} {name}\n", data.size(), data.mtime()))
}

/// Every file below `directory`, in no order, until there are too many.
fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if files.len() > FILES_MAX {
            return Ok(());
        }
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}
