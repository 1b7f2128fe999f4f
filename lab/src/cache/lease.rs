//! Leases: a process that uses an entry holds a shared lock on its directory, and removing it takes an
//! exclusive one. The kernel releases a lock however its process dies.
//!
//! The directory's modification time records the last use; no check of an entry depends on it.

use anyhow::{Context, Result};
use fs_err::File;
use rustix::fs::{FlockOperation, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, flock, futimens};
use std::{
    fs::Metadata,
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A locked file or directory.
#[derive(Debug)]
pub(super) struct Locked(pub(super) File);

impl Drop for Locked {
    fn drop(&mut self) {
        // Closing is not enough: a child that another thread has just forked has the file open until it
        // executes its program.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// An entry that is in use, and so not evicted, until the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Lease {
    path: PathBuf,
    directory: Arc<Locked>,
}

impl Lease {
    /// Takes a lease of the directory at `path` and records its use; `None` if it does not exist.
    pub fn take(path: &Path) -> Result<Option<Lease>> {
        let Some(directory) = lock_in_place(path, FlockOperation::LockShared)? else { return Ok(None) };
        // Also works in a cache that cannot be written to.
        let _ = record_use(&directory.0);
        Ok(Some(Lease { path: path.to_owned(), directory: Arc::new(directory) }))
    }

    /// The entry.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The same lease after the entry was renamed to `path`.
    pub(super) fn renamed(self, path: PathBuf) -> Lease {
        Lease { path, ..self }
    }

    /// Returns whether the entry is still at its path, neither removed nor replaced.
    pub fn is_in_place(&self) -> bool {
        is_same(&self.directory.0, &self.path)
    }
}

/// Locks the directory at `path`; `None` if it no longer exists, was replaced, or is locked by
/// another process and `operation` is non-blocking.
pub(super) fn lock_in_place(path: &Path, operation: FlockOperation) -> Result<Option<Locked>> {
    let directory = match File::open(path) {
        Ok(directory) => directory,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    match flock(&directory, operation).map(|()| Locked(directory)) {
        Ok(locked) => Ok(is_same(&locked.0, path).then_some(locked)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot lock `{}`", path.display())),
    }
}

/// Returns whether the open directory is still the one at `path`.
fn is_same(directory: &File, path: &Path) -> bool {
    let identity = |data: Metadata| (data.dev(), data.ino());
    match (directory.metadata(), path.metadata()) {
        (Ok(open), Ok(there)) => identity(open) == identity(there),
        _ => false,
    }
}

fn record_use(directory: &File) -> rustix::io::Result<()> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    futimens(directory, &Timestamps { last_access: omit, last_modification: now })
}
