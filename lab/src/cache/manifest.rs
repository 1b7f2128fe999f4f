//! Records the files of a cache entry when it is made, so that a changed entry is detected.
//!
//! It records sizes and times, not digests: the check costs one `stat` per file in every run.

use fs_err as fs;
use std::{
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The file name of the manifest in the entry.
const NAME: &str = ".manifest";

/// The maximum number of recorded files. In a larger entry, such as a kernel's source, only the
/// directory is checked: a reader that misses a file reports it.
const FILES_MAX: usize = 1000;

/// Writes the manifest of the files that are in `entry` now.
pub(super) fn write(entry: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    collect(entry, &mut files)?;
    let mut lines = String::new();
    if files.len() <= FILES_MAX {
        for file in files {
            lines += &line(entry, &file)?;
        }
    }
    fs::write(entry.join(NAME), lines)
}

/// Returns whether `entry` exists, is complete, and has no changed file.
pub(super) fn is_whole(entry: &Path) -> bool {
    let Ok(manifest) = fs::read_to_string(entry.join(NAME)) else { return false };
    manifest.split_inclusive('\n').all(|written| {
        let name = written.trim_end_matches('\n').splitn(3, ' ').nth(2);
        name.is_some_and(|name| line(entry, &entry.join(name)).is_ok_and(|now| now == written))
    })
}

/// Returns a line of the manifest: size in bytes, modification time in seconds, path.
fn line(entry: &Path, file: &Path) -> io::Result<String> {
    let data = fs::symlink_metadata(file)?;
    let name = file.strip_prefix(entry).unwrap_or(file).to_string_lossy();
    Ok(format!("{} {} {name}\n", data.size(), data.mtime()))
}

/// Collects the files below `directory`, in no particular order, until there are too many.
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
