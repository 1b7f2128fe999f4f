//! Where everything that was downloaded or built lives, and how it appears there whole.
//!
//! The cache is one directory, `FTRACE_LAB_CACHE` or `ftrace-lab` below the user's cache directory.
//! An entry is a directory named by the key of everything that shaped it. It is made in a
//! temporary neighbour and renamed into place, so a reader never sees half of one; a lock beside
//! it keeps two labs from making the same thing twice.

mod manifest;

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};
use std::{
    env, fs,
    fs::File,
    path::{Path, PathBuf},
};

/// The cache directory.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

/// Held while an entry is made; gone with the process that holds it, however that ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Cache {
    /// The cache directory named by the environment, made if it is not there.
    pub fn open() -> Result<Cache> {
        let root = match (env::var_os("FTRACE_LAB_CACHE"), env::var_os("XDG_CACHE_HOME"), env::var_os("HOME"))
        {
            (Some(root), _, _) => PathBuf::from(root),
            (None, Some(base), _) => PathBuf::from(base).join("ftrace-lab"),
            (None, None, Some(home)) => PathBuf::from(home).join(".cache/ftrace-lab"),
            (None, None, None) => bail!("no cache directory: set FTRACE_LAB_CACHE or HOME"),
        };
        Cache::at(root)
    }

    /// A cache at `root`, made if it is not there.
    pub fn at(root: impl Into<PathBuf>) -> Result<Cache> {
        let root = root.into();
        fs::create_dir_all(&root)
            .with_context(|| format!("cannot make the cache directory `{}`", root.display()))?;
        let root = root.canonicalize().with_context(|| format!("cannot resolve `{}`", root.display()))?;
        Ok(Cache { root })
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A directory below the cache, made if it is not there. Not locked, not atomic.
    pub fn directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.root.join(name);
        fs::create_dir_all(&path).with_context(|| format!("cannot make `{}`", path.display()))?;
        Ok(path)
    }

    /// Waits for and takes the lock called `name`. `waiting` is called once if someone else has it.
    pub fn lock(&self, name: &str, waiting: impl FnOnce()) -> Result<Lock> {
        let path = self.directory("locks")?.join(name.replace('/', "_"));
        let file =
            File::create(&path).with_context(|| format!("cannot make the lock `{}`", path.display()))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            waiting();
            flock(&file, FlockOperation::LockExclusive)
                .with_context(|| format!("cannot lock `{}`", path.display()))?;
        }
        Ok(Lock { _file: file })
    }

    /// The entry `kind/key`, if it is there as it was made.
    pub fn find(&self, kind: &str, key: &Key) -> Option<PathBuf> {
        let path = self.root.join(kind).join(key.as_str());
        manifest::is_whole(&path).then_some(path)
    }

    /// The entry `kind/key`, made by `make` if it is not there yet, or not as it was made. `make`
    /// fills an empty temporary directory; when it fails, nothing stays.
    pub fn entry(
        &self,
        kind: &str,
        key: &Key,
        waiting: impl FnOnce(),
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let parent = self.directory(kind)?;
        let path = parent.join(key.as_str());
        if manifest::is_whole(&path) {
            return Ok(path);
        }
        let _lock = self.lock(&format!("{kind}-{}", key.as_str()), waiting)?;
        if manifest::is_whole(&path) {
            return Ok(path);
        }
        let prefix = format!(".making-{}-", key.as_str());
        // Whoever left these behind did not live to see the lock released.
        for stale in [path.clone()].into_iter().chain(named(&parent, &prefix)?) {
            if stale.exists() {
                fs::remove_dir_all(&stale).with_context(|| format!("cannot remove `{}`", stale.display()))?;
            }
        }
        let temporary = tempfile::Builder::new()
            .prefix(&prefix)
            .tempdir_in(&parent)
            .with_context(|| format!("cannot make a directory in `{}`", parent.display()))?;
        make(temporary.path())?;
        manifest::write(temporary.path())?;
        let made = temporary.keep();
        fs::rename(&made, &path).with_context(|| format!("cannot put `{}` in place", path.display()))?;
        Ok(path)
    }
}

/// What in `directory` has a name that begins with `prefix`.
fn named(directory: &Path, prefix: &str) -> Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(directory).with_context(|| format!("cannot read `{}`", directory.display()))?;
    let begins =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix));
    Ok(entries.flatten().map(|entry| entry.path()).filter(begins).collect())
}

/// Names an entry by a digest of everything that shaped it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// The entry's name: letters, digits, `-`, `.` only.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Collects what shapes an entry.
#[derive(Default)]
pub struct KeyBuilder {
    digest: Sha256,
}

impl KeyBuilder {
    /// Adds one named input. Name and length go in too, so that inputs cannot run into each other.
    pub fn input(mut self, name: &str, bytes: impl AsRef<[u8]>) -> KeyBuilder {
        let bytes = bytes.as_ref();
        self.digest.update((name.len() as u64).to_le_bytes());
        self.digest.update(name);
        self.digest.update((bytes.len() as u64).to_le_bytes());
        self.digest.update(bytes);
        self
    }

    /// The key, with `label` in front of the digest for whoever looks into the cache.
    pub fn finish(self, label: &str) -> Key {
        let label: String =
            label.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
        Key(format!("{label}-{}", &hex(&self.digest.finalize())[..16]))
    }
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// How often `entry` made the entry anew after `damage` was done to it.
    fn check(damage: impl FnOnce(&Path), expect_made_again: bool) {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path()).unwrap();
        let key = KeyBuilder::default().input("x", "1").finish("thing");
        let made = Cell::new(0);
        let entry = || {
            cache.entry(
                "things",
                &key,
                || {},
                |into| {
                    made.set(made.get() + 1);
                    fs::create_dir(into.join("sub"))?;
                    Ok(fs::write(into.join("sub/file"), "content")?)
                },
            )
        };
        let path = entry().unwrap();
        damage(&path);
        entry().unwrap();
        assert_eq!(fs::read_to_string(path.join("sub/file")).unwrap(), "content");
        assert_eq!(made.get() == 2, expect_made_again);
    }

    #[test]
    fn a_damaged_entry_is_made_again() {
        check(|_| {}, false);
        check(|path| fs::write(path.join("sub/file"), "cont").unwrap(), true);
        check(|path| fs::remove_file(path.join("sub/file")).unwrap(), true);
        check(|path| fs::remove_dir_all(path).unwrap(), true);
        check(|path| fs::remove_file(path.join(".manifest")).unwrap(), true);
    }

    #[test]
    fn what_a_killed_lab_left_is_removed() {
        check(
            |path| {
                let name = path.file_name().unwrap().to_str().unwrap();
                let stale = path.with_file_name(format!(".making-{name}-abc"));
                fs::create_dir_all(stale.join("deep")).unwrap();
                fs::remove_dir_all(path).unwrap();
            },
            true,
        );
    }

    #[test]
    fn a_failed_make_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path()).unwrap();
        let key = KeyBuilder::default().finish("thing");
        cache.entry("things", &key, || {}, |_| bail!("no")).unwrap_err();
        assert_eq!(fs::read_dir(directory.path().join("things")).unwrap().count(), 0);
    }
}
