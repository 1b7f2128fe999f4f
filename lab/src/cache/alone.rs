//! The lock of a whole cache: each process that uses it holds a shared lock on its directory, and pruning
//! takes an exclusive one. The kernel releases a lock however its process dies.

use super::{Cache, lease::Locked};
use anyhow::{Context, Result, bail};
use fs_err::{self as fs, File};
use rustix::{
    fs::{FlockOperation, flock, fstat, major, minor},
    io::Errno,
};
use std::{path::Path, process};

/// Keeps other processes from using the cache until it is dropped.
#[derive(Debug)]
pub struct Alone<'a>(&'a Locked);

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        // Shared again; the others that wait only need that, too.
        let _ = flock(&self.0.0, FlockOperation::LockShared);
    }
}

/// Opens the directory at `root` with a shared lock. Calls `waiting` once if another process is alone.
pub(super) fn share(root: &Path, waiting: impl FnOnce()) -> Result<Locked> {
    let directory = File::open(root)?;
    let locked = match flock(&directory, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => {
            waiting();
            flock(&directory, FlockOperation::LockShared)
        }
        locked => locked,
    };
    locked.with_context(|| format!("cannot lock `{}`", root.display()))?;
    Ok(Locked(directory))
}

impl Cache {
    /// Makes this the only process that uses the cache, without waiting.
    ///
    /// # Errors
    /// Another process uses it.
    pub fn alone(&self) -> Result<Alone<'_>> {
        let root = self.root.display();
        let Err(error) = flock(&self.shared.0, FlockOperation::NonBlockingLockExclusive) else {
            return Ok(Alone(&self.shared));
        };
        // The attempt released the shared lock.
        drop(Alone(&self.shared));
        if error != Errno::WOULDBLOCK {
            return Err(error).with_context(|| format!("cannot lock `{root}`"));
        }
        let users: String = users(&self.shared.0).iter().map(|user| format!(" (PID {user})")).collect();
        bail!("cannot prune `{root}`: another process uses it{users}; try again when it has exited");
    }
}

/// Returns the other processes that have locked `directory`, as far as the host shows them.
fn users(directory: &File) -> Vec<u32> {
    let Ok(data) = fstat(directory) else { return Vec::new() };
    let name = format!("{:02x}:{:02x}:{}", major(data.st_dev), minor(data.st_dev), data.st_ino);
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let user = |line: &str| {
        // 1: FLOCK  ADVISORY  READ 1234 fe:00:5678 0 EOF
        let mut words = line.split_whitespace().skip(4);
        let pid: u32 = words.next()?.parse().ok()?;
        (words.next()? == name && pid != 0 && pid != process::id()).then_some(pid)
    };
    locks.lines().filter_map(user).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::tests::user_of;
    use std::process::{Child, Command};

    #[test]
    fn a_cache_in_use_is_left_to_its_user_until_that_exits_or_dies() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::at(root.path()).unwrap();
        let end: [fn(&mut Child); 2] = [|user| drop(user.stdin.take()), |user| user.kill().unwrap()];
        for end in end {
            let mut user = user_of(cache.root());
            let error = cache.alone().unwrap_err().to_string();
            let expect = format!(
                "cannot prune `{}`: another process uses it (PID {}); try again when it has exited",
                cache.root().display(),
                user.id()
            );
            assert_eq!(error, expect);
            end(&mut user);
            user.wait().unwrap();
            drop(cache.alone().unwrap());
        }
    }

    #[test]
    fn each_cache_and_each_clone_of_it_is_a_user() {
        let root = tempfile::tempdir().unwrap();
        let [cache, other] = [(), ()].map(|()| Cache::at(root.path()).unwrap());
        let clone = other.clone();
        drop(other);
        cache.alone().unwrap_err();
        // A failed attempt leaves both sharing it.
        clone.alone().unwrap_err();
        drop(clone);
        let alone = cache.alone().unwrap();
        let mut waited = Command::new("flock");
        waited.args(["--shared", "--nonblock"]).arg(root.path()).arg("true");
        assert!(!waited.status().unwrap().success());
        drop(alone);
        assert!(waited.status().unwrap().success());
    }
}
