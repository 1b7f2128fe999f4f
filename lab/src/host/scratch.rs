//! Directories in the cache for files that are needed only while the lab runs.

use super::whole::directory_for;
use crate::cache::Cache;
use anyhow::Result;
use fs_err::File;
use std::path::Path;
use tempfile::TempDir;

/// A directory in the cache, removed on drop. The next one that is made removes those that killed labs left.
#[derive(Debug)]
pub struct Scratch {
    directory: TempDir,
    /// Shows that this process uses it.
    _lock: File,
}

impl Scratch {
    /// Creates an empty directory.
    pub fn new(cache: &Cache) -> Result<Scratch> {
        let (directory, lock) = directory_for(&cache.directory("scratch")?.join("files"))?;
        Ok(Scratch { directory, _lock: lock })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fs_err as fs;

    #[test]
    fn what_a_killed_lab_left_goes_and_what_is_used_stays() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::at(root.path()).unwrap();
        let scratch = || Scratch::new(&cache).unwrap();
        // As a killed process leaves it: not removed, and no longer locked.
        let left = scratch().directory.keep();
        fs::write(left.join("scenario.yaml"), "").unwrap();
        let (used, other) = (scratch(), scratch());
        assert!(!left.exists() && used.path().exists() && used.path() != other.path());
        let path = used.path().to_owned();
        drop(used);
        assert!(!path.exists());
    }
}
