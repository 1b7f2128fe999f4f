//! Eviction from real directories, with real locks of other processes.

use super::*;
use crate::cache::{KeyBuilder, Lease, tests::user_of};
use std::process::{Command, Stdio};

/// The size of an entry's file; with its directories, an entry takes a little more.
const SIZE: usize = 1 << 20;

/// A limit with room for this many entries.
fn room_for(entries: u64) -> u64 {
    entries * (SIZE as u64 + (64 << 10))
}

/// A cache with the entries `builds/old`, `sources/middle` and `builds/new`, least recently used first.
struct Setting {
    directory: tempfile::TempDir,
    cache: Cache,
}

impl Setting {
    fn new(limit: Option<u64>) -> Setting {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path().join("cache")).unwrap().with_limit(limit);
        let setting = Setting { directory, cache };
        for (name, minutes) in [("builds/old", 30), ("sources/middle", 20), ("builds/new", 10)] {
            setting.add(name, minutes);
        }
        fs::write(setting.path("builds/6.12.objects"), "900\n").unwrap();
        setting
    }

    fn path(&self, name: &str) -> PathBuf {
        self.cache.root().join(name)
    }

    /// Adds an entry that was last used this long ago.
    fn add(&self, name: &str, minutes: u64) {
        let path = self.path(name);
        fs::create_dir_all(path.join("output")).unwrap();
        fs::write(path.join("output/vmlinux"), vec![1; SIZE]).unwrap();
        self.set_used(name, minutes);
    }

    fn set_used(&self, name: &str, minutes: u64) {
        let used = SystemTime::now() - Duration::from_secs(minutes * 60);
        fs::File::open(self.path(name)).unwrap().set_modified(used).unwrap();
    }

    /// Returns what is in `builds` and `sources` after room was made.
    fn left(&self) -> String {
        self.cache.make_room(&Progress::silent());
        let entries = LIMITED.map(|kind| fs::read_dir(self.path(kind)).unwrap());
        let names = entries.into_iter().flatten().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names.join(" ")
    }
}

#[test]
fn a_limit_is_a_size_with_a_unit_or_none() {
    let check = |text: &str, expect: Option<u64>| assert_eq!(parse_limit(text), expect, "{text}");
    check("500M", Some(500_000_000));
    check("40G", Some(40_000_000_000));
    check("40GB", Some(40_000_000_000));
    check("1T", Some(1_000_000_000_000));
    check("none", Some(0));
    check("0", Some(0));
    check("0G", Some(0));
    for wrong in ["", "40", "G", "-1G", "1.5T", "40 G", "40g", "40GiB", "none ", "99999999999T"] {
        check(wrong, None);
    }
}

#[test]
fn the_least_recently_used_make_room_first() {
    let check =
        |limit: Option<u64>, expect: &str| assert_eq!(Setting::new(limit).left(), expect, "{limit:?}");
    check(None, "6.12.objects middle new old");
    check(Some(room_for(3)), "6.12.objects middle new old");
    check(Some(room_for(2)), "6.12.objects middle new");
    check(Some(room_for(1)), "6.12.objects new");
    check(Some(1), "6.12.objects");
}

#[test]
fn an_entry_in_use_stays_even_if_it_alone_is_too_large() {
    let setting = Setting::new(Some(1));
    let mut user = user_of(&setting.path("builds/old"));
    let lease = Lease::take(&setting.path("sources/middle")).unwrap().unwrap();
    assert_eq!(setting.left(), "6.12.objects middle old");
    drop(lease);
    assert_eq!(setting.left(), "6.12.objects old");
    user.kill().unwrap();
    user.wait().unwrap();
    assert_eq!(setting.left(), "6.12.objects");
}

#[test]
fn using_an_entry_makes_it_the_most_recently_used() {
    let setting = Setting::new(Some(room_for(1)));
    let key = KeyBuilder::default().finish("used");
    let make = |into: &Path| Ok(fs::write(into.join("file"), vec![1; SIZE])?);
    let lease = || setting.cache.leased_entry("builds", &key, || {}, make).unwrap();
    lease();
    setting.set_used(&format!("builds/{}", key.as_str()), 40);
    lease();
    assert_eq!(setting.left(), format!("6.12.objects {}", key.as_str()));
    // Its use did not make it count as changed.
    assert!(setting.cache.find("builds", &key).unwrap().is_some());
}

#[test]
fn an_evicted_entry_is_made_again_and_its_lease_is_not_in_place() {
    let setting = Setting::new(Some(1));
    let key = KeyBuilder::default().finish("entry");
    let mut made = 0;
    for _ in 0..2 {
        let count = |_: &Path| {
            made += 1;
            Ok(())
        };
        let lease = setting.cache.leased_entry("builds", &key, || {}, count).unwrap();
        assert!(lease.is_in_place() && setting.left().contains(key.as_str()));
        drop(lease);
        assert!(!setting.left().contains(key.as_str()));
    }
    assert_eq!(made, 2);
}

#[test]
fn an_entry_evicted_between_being_opened_and_locked_does_not_exist() {
    let setting = Setting::new(Some(1));
    let path = setting.path("builds/old");
    let evictor = lock_in_place(&path, FlockOperation::NonBlockingLockExclusive).unwrap().unwrap();
    let user = std::thread::spawn({
        let path = path.clone();
        move || Lease::take(&path).unwrap()
    });
    let inode = format!(":{} ", fs::metadata(&path).unwrap().ino());
    let is_waiter = |line: &str| line.contains("->") && line.contains(&inode);
    let waits = || fs::read_to_string("/proc/locks").unwrap().lines().any(is_waiter);
    while !waits() && !user.is_finished() {
        std::thread::yield_now();
    }
    fs::rename(&path, setting.path("builds/.evicted-old")).unwrap();
    drop(evictor);
    assert!(user.join().unwrap().is_none());
}

#[test]
fn abandoned_unfinished_entries_are_removed_and_others_are_not() {
    let setting = Setting::new(Some(room_for(3)));
    for (name, minutes) in [(".making-a-1", 50), (".making-b-2", 70), (".evicted-3", 70), (".making-c-4", 70)]
    {
        setting.add(&format!("builds/{name}"), minutes);
    }
    let mut user = user_of(&setting.path("builds/.making-c-4"));
    assert_eq!(setting.left(), ".making-a-1 .making-c-4 6.12.objects middle new old");
    drop(user.stdin.take());
    user.wait().unwrap();
}

#[test]
fn what_may_be_someone_elses_is_not_evicted() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("photos")).unwrap();
    let cache = Cache::at(directory.path()).unwrap().with_limit(Some(1));
    let unmarked = Setting { directory, cache };
    unmarked.add("builds/website", 10);
    unmarked.add("sources/novel", 10);
    assert_eq!(unmarked.left(), "novel website");

    let setting = Setting::new(Some(1));
    let elsewhere = setting.directory.path().join("elsewhere");
    fs::rename(setting.path("sources"), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, setting.path("sources")).unwrap();
    std::os::unix::fs::symlink(elsewhere.join("middle"), setting.path("builds/linked")).unwrap();
    assert_eq!(setting.left(), "6.12.objects linked middle");
}

#[test]
fn a_cache_that_cannot_be_written_to_is_used_anyway() {
    let setting = Setting::new(Some(1));
    let key = KeyBuilder::default().finish("entry");
    drop(setting.cache.leased_entry("builds", &key, || {}, |_| Ok(())).unwrap());
    let root = setting.cache.root().to_owned();
    let mount = |arguments: &[&str]| {
        let status = Command::new("mount").args(arguments).arg(&root).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let path = root.display().to_string();
    if !mount(&["--bind", "-o", "ro", &path]) {
        eprintln!("unsupported: only root can mount a directory read-only");
        return;
    }
    let used = Cache::at(&root).and_then(|cache| {
        cache.make_room(&Progress::silent());
        cache.find("builds", &key)
    });
    assert!(Command::new("umount").args(["--lazy", &path]).status().unwrap().success());
    assert!(used.unwrap().is_some());
}
