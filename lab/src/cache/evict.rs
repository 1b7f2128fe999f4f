//! Evicts entries, least recently used first, so that the cache does not grow without limit. Entries in
//! use stay.

use super::{Cache, lease::lock_in_place, mark};
use crate::progress::Progress;
use anyhow::{Context, Result, bail};
use fs_err as fs;
use rustix::fs::FlockOperation;
use std::{
    env, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// The directories of the cache whose total size is limited: builds of kernels and their sources.
pub const LIMITED: [&str; 2] = ["builds", "sources"];

/// The variable that sets the limit.
pub const LIMIT_VARIABLE: &str = "FTRACE_LAB_CACHE_MAX";

/// The limit if the variable is not set: about 25 kernels, at 0.8 GB for a build and 1.6 GB for a source.
pub(super) const DEFAULT_LIMIT_BYTES: u64 = 60_000_000_000;

/// The files that show that an entry is complete.
const COMPLETE: [&str; 2] = [".manifest", "stamp.json"];

/// The age at which unfinished entries of killed processes are removed.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Returns the limit in bytes that the environment sets; `None` switches eviction off.
pub(super) fn limit_of_environment() -> Result<Option<u64>> {
    let Some(text) = env::var_os(LIMIT_VARIABLE) else { return Ok(Some(DEFAULT_LIMIT_BYTES)) };
    let text = text.to_string_lossy();
    match parse_limit(&text) {
        Some(0) => Ok(None),
        Some(bytes) => Ok(Some(bytes)),
        None => {
            bail!("{LIMIT_VARIABLE} is `{text}`, expected a size such as `500M`, `40G` or `1T`, or `none`")
        }
    }
}

/// Parses a limit. Zero stands for none; a number without a unit is not a limit.
fn parse_limit(text: &str) -> Option<u64> {
    if matches!(text, "none" | "0") {
        return Some(0);
    }
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let factor = match unit {
        "M" | "MB" => 1_000_000,
        "G" | "GB" => 1_000_000_000,
        "T" | "TB" => 1_000_000_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

impl Cache {
    /// The maximum size of the directories [`LIMITED`] in total, in bytes; `None` if there is no limit.
    pub fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// Returns this cache with a different limit, in bytes.
    pub(crate) fn with_limit(self, limit: Option<u64>) -> Cache {
        Cache { limit, ..self }
    }

    /// Evicts entries of [`LIMITED`] beyond the limit, unless the directory is not only the lab's. Call it
    /// after making one, with a lease of that. An error is only a warning.
    pub fn make_room(&self, progress: &Progress) {
        let Some(limit) = self.limit.filter(|_| mark::is_marked(&self.root)) else { return };
        // A symlink points to someone else's files.
        let is_own = |path: &PathBuf| path.symlink_metadata().is_ok_and(|data| data.is_dir());
        let directories: Vec<_> =
            LIMITED.map(|name| self.root.join(name)).into_iter().filter(is_own).collect();
        let evicted = evict(&directories, limit, |path, bytes| {
            let name = path.strip_prefix(&self.root).unwrap_or(path).display();
            progress.line(format!(
                "removed `{name}` from the cache ({} MB): least recently used, and the limit is {} MB",
                bytes / 1_000_000,
                limit / 1_000_000
            ));
        });
        if let Err(error) = evicted {
            progress.line(format!("warning: cannot evict old kernels from the cache: {error:#}"));
        }
    }
}

/// Removes the least recently used entries of `directories` until the rest takes at most `limit` bytes, and
/// unfinished ones that were abandoned. Calls `removed` with each removed entry and its size.
pub fn evict(directories: &[PathBuf], limit: u64, mut removed: impl FnMut(&Path, u64)) -> Result<()> {
    let mut entries = Vec::new();
    for directory in directories {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            // An entry that another process removes at the same time is not an error.
            let Ok(data) = path.symlink_metadata() else { continue };
            let used = data.modified()?;
            if !data.is_dir() {
                continue;
            }
            if !super::is_hidden(&path) {
                entries.push((used, size_on_disk(&path)?, path));
            } else if SystemTime::now().duration_since(used).is_ok_and(|age| age > ABANDONED) {
                remove(&path)?;
            }
        }
    }
    entries.sort();
    let mut total: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
    for (_, bytes, path) in entries {
        if total <= limit {
            break;
        }
        if remove(&path)? {
            removed(&path, bytes);
        }
        if !path.exists() {
            total -= bytes;
        }
    }
    Ok(())
}

/// Removes an entry unless it is in use, and returns whether it did.
fn remove(path: &Path) -> Result<bool> {
    let Some(_lock) = lock_in_place(path, FlockOperation::NonBlockingLockExclusive)? else {
        return Ok(false);
    };
    let parent = path.parent().unwrap_or(path);
    // Renamed first: if this process is killed, what is left is not taken for an entry.
    let aside = tempfile::Builder::new().prefix(".evicted-").tempdir_in(parent)?;
    match fs::rename(path, aside.path()) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            remove_in_place(path)?;
            return Ok(true);
        }
        renamed => renamed?,
    }
    aside.close().with_context(|| format!("cannot remove all of `{}`", path.display()))?;
    Ok(true)
}

/// Removes an entry that cannot be renamed: an overlay does not rename a directory of its lower layer. What shows that
/// it is complete is removed first.
pub(crate) fn remove_in_place(path: &Path) -> io::Result<()> {
    for name in COMPLETE {
        match fs::remove_file(path.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::remove_dir_all(path)
}

/// Returns the bytes that a path takes on disk; holes take none. Files that are removed at the same time do
/// not count, and those with several hard links count at each.
pub fn size_on_disk(path: &Path) -> io::Result<u64> {
    let measure = || -> io::Result<u64> {
        let data = fs::symlink_metadata(path)?;
        let mut bytes = data.blocks() * 512;
        if data.is_dir() {
            for entry in fs::read_dir(path)? {
                bytes += size_on_disk(&entry?.path())?;
            }
        }
        Ok(bytes)
    };
    match measure() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        measured => measured,
    }
}

#[cfg(test)]
#[path = "evict_tests.rs"]
mod tests;
