//! Stores snapshots as entries of the cache, whose total size is limited.

use crate::cache::{Cache, Key, Lease, evict};
use anyhow::Result;
use fs_err as fs;
use std::path::Path;

/// The directory in the cache.
pub(super) const KIND: &str = "snapshots";

/// The maximum size of all snapshots on disk, in bytes: about fifty of machines with 512 MB of
/// memory. Those in use stay, whatever their size.
pub(super) const ROOM_BYTES: u64 = 2 << 30;

/// The snapshots of a cache.
#[derive(Debug)]
pub(super) struct SnapshotStore {
    cache: Cache,
    room_bytes: u64,
}

/// An entry that is kept while its lease is held.
#[derive(Debug)]
pub(super) struct SnapshotLease {
    pub(super) lease: Lease,
    /// Whether it was made for this call.
    pub(super) made_now: bool,
}

impl SnapshotStore {
    pub(super) fn new(cache: &Cache) -> Result<SnapshotStore> {
        Ok(SnapshotStore { cache: cache.clone(), room_bytes: ROOM_BYTES })
    }

    /// Returns the entry, made by `make` if it does not exist.
    pub(super) fn get(
        &self,
        key: &Key,
        waiting: impl FnOnce(),
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<SnapshotLease> {
        let mut made_now = false;
        let lease = self.cache.leased_entry(KIND, key, waiting, |entry| {
            made_now = true;
            make(entry)
        })?;
        if made_now {
            evict(&[self.cache.directory(KIND)?], self.room_bytes, |_, _| {})?;
        }
        Ok(SnapshotLease { lease, made_now })
    }

    /// Returns the entry if it exists.
    pub(super) fn find(&self, key: &Key) -> Option<SnapshotLease> {
        let lease = self.cache.find(KIND, key).ok()??;
        Some(SnapshotLease { lease, made_now: false })
    }

    /// Removes an unusable entry. Machines that run from it continue to run.
    pub(super) fn discard(&self, held: &SnapshotLease) {
        // Another process may have replaced it with a good one. An entry that cannot be removed is
        // found to be corrupt again, without further harm.
        if held.lease.is_in_place() {
            let _ = fs::remove_dir_all(held.lease.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::KeyBuilder;
    use std::{
        cell::Cell,
        time::{Duration, SystemTime},
    };

    /// A store with room for two entries of the size that these tests make.
    struct Setting {
        _directory: tempfile::TempDir,
        shelf: SnapshotStore,
        clock: Cell<u64>,
    }

    const SIZE: usize = 64 << 10;

    impl Setting {
        fn new() -> Setting {
            let directory = tempfile::tempdir().unwrap();
            let shelf = SnapshotStore {
                cache: Cache::at(directory.path()).unwrap(),
                room_bytes: (SIZE as u64 + (16 << 10)) * 2,
            };
            Setting { _directory: directory, shelf, clock: Cell::new(0) }
        }

        fn get(&self, name: &str) -> SnapshotLease {
            let key = KeyBuilder::default().input("name", name).finish(name);
            let held = self.shelf.get(&key, || {}, |entry| Ok(fs::write(entry.join("ram"), [1; SIZE])?));
            let held = held.unwrap();
            // A filesystem's clock may be too coarse for uses in one test.
            self.clock.set(self.clock.get() + 10);
            let time = SystemTime::now() - Duration::from_secs(1000 - self.clock.get());
            fs::File::open(held.lease.path()).unwrap().set_modified(time).unwrap();
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
        assert_eq!(setting.names(), "ad");
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
