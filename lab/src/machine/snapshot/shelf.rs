//! Where snapshots are kept: entries of the cache that no one removes while they are used, and not
//! more of them than there is room for.
//!
//! Whoever uses an entry holds a shared lock on its directory; whoever removes it needs it alone.

use crate::cache::{Cache, Key};
use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, flock, futimens};
use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// The directory in the cache.
const KIND: &str = "snapshots";

/// How many bytes on disk all snapshots together may take: about fifty of machines with 512 MB of
/// memory. The one that was used last stays, whatever its size.
pub(super) const ROOM_BYTES: u64 = 2 << 30;

/// What a lab that was killed has left half made is removed after this time.
const ABANDONED: Duration = Duration::from_secs(3600);

/// The snapshots of a cache.
#[derive(Debug)]
pub(super) struct Shelf {
    cache: Cache,
    room_bytes: u64,
}

/// An entry that stays as long as its lock is held.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) path: PathBuf,
    /// The entry's directory, locked.
    pub(super) lock: File,
    /// Whether it was made for this very use.
    pub(super) made_now: bool,
}

impl Shelf {
    pub(super) fn new(cache: &Cache) -> Result<Shelf> {
        Ok(Shelf { cache: cache.clone(), room_bytes: ROOM_BYTES })
    }

    /// The entry, made by `make` if it is not there.
    pub(super) fn get(
        &self,
        key: &Key,
        waiting: impl Fn(),
        make: impl Fn(&Path) -> Result<()>,
    ) -> Result<Held> {
        // It can be removed between being found and being locked; a second time is bad luck.
        for _ in 0..5 {
            let mut made_now = false;
            let path = self.cache.entry(KIND, key, &waiting, |entry| {
                made_now = true;
                make(entry)
            })?;
            if let Some(lock) = lock_in_place(&path, FlockOperation::LockShared)? {
                now_used(&lock)?;
                if made_now {
                    self.make_room(&path)?;
                }
                return Ok(Held { path, lock, made_now });
            }
        }
        bail!("the snapshot `{}` disappears again and again", key.as_str())
    }

    /// The entry, if it is there.
    pub(super) fn find(&self, key: &Key) -> Option<Held> {
        let path = self.cache.find(KIND, key)?;
        let lock = lock_in_place(&path, FlockOperation::NonBlockingLockShared).ok()??;
        now_used(&lock).ok()?;
        Some(Held { path, lock, made_now: false })
    }

    /// Removes an entry that is of no use. Machines that run from it go on.
    pub(super) fn discard(&self, held: &Held) {
        // Another lab may have put a better one in its place. What cannot be removed is found
        // damaged again, and that is all.
        if is_same(&held.lock, &held.path) {
            let _ = fs::remove_dir_all(&held.path);
        }
    }

    /// Removes those that were not used for the longest time, until the rest has room.
    fn make_room(&self, keep: &Path) -> Result<()> {
        let parent = self.cache.directory(KIND)?;
        let mut entries = Vec::new();
        for entry in fs::read_dir(&parent).with_context(|| format!("cannot read `{}`", parent.display()))? {
            let path = entry?.path();
            // One that another lab removes at the same time is no error.
            let Ok(data) = path.metadata() else { continue };
            let used = data.modified()?;
            if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".making-")) {
                if SystemTime::now().duration_since(used).is_ok_and(|age| age > ABANDONED) {
                    let _ = fs::remove_dir_all(&path);
                }
            } else if path != keep {
                entries.push((used, size_on_disk(&path), path));
            }
        }
        entries.sort();
        let mut room = self.room_bytes.saturating_sub(size_on_disk(keep));
        for (_, size, path) in entries.into_iter().rev() {
            if size <= room {
                room -= size;
                continue;
            }
            // From here on everything older goes too, unless it is in use.
            room = 0;
            if let Ok(Some(_lock)) = lock_in_place(&path, FlockOperation::NonBlockingLockExclusive) {
                let _ = fs::remove_dir_all(&path);
            }
        }
        Ok(())
    }
}

/// Locks the directory at `path`; `None` if it is gone, or another one is in its place, or someone
/// holds it and the lock was not to wait.
fn lock_in_place(path: &Path, operation: FlockOperation) -> Result<Option<File>> {
    let cannot = || format!("cannot lock `{}`", path.display());
    let directory = match File::open(path) {
        Ok(directory) => directory,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(cannot),
    };
    match flock(&directory, operation) {
        Ok(()) => Ok(is_same(&directory, path).then_some(directory)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error).with_context(cannot),
    }
}

/// Whether the open directory is still the one at `path`.
fn is_same(directory: &File, path: &Path) -> bool {
    let identity = |data: fs::Metadata| (data.dev(), data.ino());
    match (directory.metadata(), path.metadata()) {
        (Ok(open), Ok(there)) => identity(open) == identity(there),
        _ => false,
    }
}

/// The time of a directory's last change says when it was used.
fn now_used(directory: &File) -> Result<()> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let times = Timestamps { last_access: omit, last_modification: now };
    futimens(directory, &times).context("cannot note the use of a snapshot")
}

fn size_on_disk(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|data| data.blocks() * 512).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::KeyBuilder;
    use std::{cell::Cell, time::Duration};

    /// A shelf with room for two entries of the size that these tests make.
    struct Setting {
        _directory: tempfile::TempDir,
        shelf: Shelf,
        clock: Cell<u64>,
    }

    const SIZE: usize = 64 << 10;

    impl Setting {
        fn new() -> Setting {
            let directory = tempfile::tempdir().unwrap();
            let shelf = Shelf {
                cache: Cache::at(directory.path()).unwrap(),
                room_bytes: (SIZE as u64 + (16 << 10)) * 2,
            };
            Setting { _directory: directory, shelf, clock: Cell::new(0) }
        }

        fn get(&self, name: &str) -> Held {
            let key = KeyBuilder::default().input("name", name).finish(name);
            let held = self.shelf.get(&key, || {}, |entry| Ok(fs::write(entry.join("ram"), [1; SIZE])?));
            let held = held.unwrap();
            // A file system's clock may be too coarse for uses in one test.
            self.clock.set(self.clock.get() + 10);
            let time = SystemTime::now() - Duration::from_secs(1000 - self.clock.get());
            held.lock.set_modified(time).unwrap();
            held
        }

        fn names(&self) -> String {
            let entries = fs::read_dir(self.shelf.cache.root().join(KIND)).unwrap();
            let mut names: Vec<_> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names.iter().map(|name| &name[..1]).collect()
        }
    }

    #[test]
    fn the_one_that_was_not_used_for_the_longest_time_makes_room() {
        let setting = Setting::new();
        for name in ["a", "b", "a", "c"] {
            drop(setting.get(name));
        }
        assert_eq!(setting.names(), "ac");
    }

    #[test]
    fn one_in_use_stays() {
        let setting = Setting::new();
        let used = setting.get("a");
        for name in ["b", "c", "d"] {
            drop(setting.get(name));
        }
        assert_eq!(setting.names(), "acd");
        drop(used);
        drop(setting.get("e"));
        assert_eq!(setting.names(), "de");
    }

    #[test]
    fn a_discarded_one_is_made_again_and_a_better_one_is_not_discarded() {
        let setting = Setting::new();
        let bad = setting.get("a");
        assert!(bad.made_now && !setting.get("a").made_now);
        setting.shelf.discard(&bad);
        assert!(setting.get("a").made_now);
        setting.shelf.discard(&bad);
        assert!(!setting.get("a").made_now);
    }
}
