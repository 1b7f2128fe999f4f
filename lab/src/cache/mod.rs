//! The cache of downloads and build results, whose entries appear complete or not at all.
//!
//! The cache is one directory, `FTRACE_LAB_CACHE` or `ftrace-lab` below the user's cache directory.
//! An entry is a directory named by the key of everything that affects it. It is made in a
//! temporary sibling and renamed, so that a reader never sees an incomplete one. A lock keeps two
//! processes from making the same entry. The directory carries a mark, without which nothing in it is
//! removed.
//!
//! What is in use is not removed: a process holds a shared lock on the cache, against pruning, and on
//! the entries that could be evicted.

mod alone;
mod evict;
mod lease;
mod manifest;
mod mark;
mod place;

pub use alone::Alone;
pub(crate) use evict::remove_in_place;
pub use evict::{LIMIT_VARIABLE, LIMITED, evict, size_on_disk};
pub use lease::Lease;
use lease::Locked;

use crate::progress::Progress;
use anyhow::{Context, Result, bail};
use fs_err::{self as fs, File};
use rustix::fs::{Access, FlockOperation, access, flock};
use sha2::{Digest, Sha256};
use std::{
    env, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The cache directory, which no other process prunes while a clone of it exists.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
    /// The directory, with a shared lock.
    shared: Arc<Locked>,
    limit: Option<u64>,
}

/// Held while an entry is made; released when its process exits, however that happens.
#[derive(Debug)]
pub struct Lock {
    _file: Locked,
}

impl Cache {
    /// Opens the cache directory named by the environment, creating it if necessary. Waits while another
    /// process prunes it.
    pub fn open(progress: &Progress) -> Result<Cache> {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        let root = match (set("FTRACE_LAB_CACHE"), set("XDG_CACHE_HOME"), set("HOME")) {
            (Some(root), _, _) => PathBuf::from(root),
            (None, Some(base), _) => PathBuf::from(base).join("ftrace-lab"),
            (None, None, Some(home)) => PathBuf::from(home).join(".cache/ftrace-lab"),
            (None, None, None) => bail!("no cache directory: set FTRACE_LAB_CACHE or HOME"),
        };
        place::check(&root)?;
        let waiting = || progress.line("waiting for another process that is pruning the cache");
        let limit = evict::limit_of_environment()?;
        Ok(Cache::of(root, waiting)?.with_limit(limit))
    }

    /// Opens a cache at `root`, creating it if necessary, with the default limit.
    pub fn at(root: impl Into<PathBuf>) -> Result<Cache> {
        Cache::of(root.into(), || {})
    }

    fn of(root: PathBuf, waiting: impl FnOnce()) -> Result<Cache> {
        fs::create_dir_all(&root)
            .with_context(|| format!("cannot create the cache `{}`; {}", root.display(), place::ELSEWHERE))?;
        let root = fs::canonicalize(&root)?;
        let shared = Arc::new(alone::share(&root, waiting)?);
        // Also works in a directory that cannot be written to.
        let _ = mark::adopt(&root);
        Ok(Cache { root, shared, limit: Some(evict::DEFAULT_LIMIT_BYTES) })
    }

    /// Returns the cache directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Fails if the directory holds, or held when it was first used, anything that is not the lab's.
    pub fn check_own(&self) -> Result<()> {
        if mark::is_marked(&self.root) {
            return Ok(());
        }
        let root = self.root.display();
        match mark::foreign(&self.root)? {
            Some(name) => bail!(
                "cannot prune `{root}`: `{name}` in it is not the lab's; set FTRACE_LAB_CACHE to a directory \
                 that nothing else uses"
            ),
            None => bail!("cannot prune `{root}`: cannot mark it as the lab's; make it writable"),
        }
    }

    /// Returns whether `path` is a file that marks the directory as a cache.
    pub fn is_mark(path: &Path) -> bool {
        path.file_name().is_some_and(|name| mark::is_mark(&name.to_string_lossy()))
    }

    /// Returns whether this process may write to the directory `name`, which need not exist: false on a filesystem that
    /// is mounted read-only, for root, too.
    pub fn is_writable(&self, name: &str) -> bool {
        let directory = Some(self.root.join(name)).filter(|directory| directory.is_dir());
        access(directory.as_ref().unwrap_or(&self.root), Access::WRITE_OK).is_ok()
    }

    /// Adds the next step to an error of writing to the cache, if this process may not.
    fn written<T, E: Into<anyhow::Error>>(&self, result: Result<T, E>) -> Result<T> {
        let refused = |error: &io::Error| {
            matches!(error.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
        };
        result.map_err(|error| {
            let error = error.into();
            if !error.chain().any(|cause| cause.downcast_ref().is_some_and(refused)) {
                return error;
            }
            let root = self.root.display();
            error.context(format!(
                "cannot write to the cache `{root}`; make it writable, or {}",
                place::ELSEWHERE
            ))
        })
    }

    /// Returns a directory below the cache, creating it if necessary, without links in its path: what is built
    /// there names its files by that path, and may be read under another one. Not locked, not atomic.
    pub fn directory(&self, name: &str) -> Result<PathBuf> {
        debug_assert!(mark::is_known(name.split('/').next().unwrap_or(name)), "`{name}` is not in the list");
        let path = self.root.join(name);
        self.written(fs::create_dir_all(&path))?;
        Ok(fs::canonicalize(path)?)
    }

    /// Takes the lock called `name`. Calls `waiting` once if another process holds it.
    pub fn lock(&self, name: &str, waiting: impl FnOnce()) -> Result<Lock> {
        let path = self.directory("locks")?.join(name.replace('/', "_"));
        let file = self.written(File::create(&path))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            waiting();
            flock(&file, FlockOperation::LockExclusive)
                .with_context(|| format!("cannot lock `{}`", path.display()))?;
        }
        Ok(Lock { _file: Locked(file) })
    }

    /// Returns a lease of the entry `kind/key` if it exists and is unchanged.
    pub fn find(&self, kind: &str, key: &Key) -> Result<Option<Lease>> {
        // Leased before it is checked: afterwards, it is not evicted.
        let lease = Lease::take(&self.directory(kind)?.join(key.as_str()))?;
        Ok(lease.filter(|lease| manifest::is_whole(lease.path())))
    }

    /// Like [`Cache::leased_entry`], but for kinds that are not evicted.
    pub fn entry(
        &self,
        kind: &str,
        key: &Key,
        waiting: impl FnOnce(),
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        Ok(self.leased_entry(kind, key, waiting, make)?.path().to_owned())
    }

    /// Returns a lease of the entry `kind/key`, made by `make` if it does not exist or was changed. `make`
    /// fills an empty temporary directory; if it fails, nothing is left behind.
    pub fn leased_entry(
        &self,
        kind: &str,
        key: &Key,
        waiting: impl FnOnce(),
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Lease> {
        let parent = self.directory(kind)?;
        if let Some(lease) = self.find(kind, key)? {
            return Ok(lease);
        }
        let _lock = self.lock(&format!("{kind}-{}", key.as_str()), waiting)?;
        if let Some(lease) = self.find(kind, key)? {
            return Ok(lease);
        }
        let path = parent.join(key.as_str());
        let prefix = format!(".making-{}-", key.as_str());
        // The processes that left these behind died before they finished them.
        for stale in [path.clone()].into_iter().chain(named(&parent, &prefix)?) {
            if stale.exists() {
                fs::remove_dir_all(&stale)?;
            }
        }
        let temporary = tempfile::Builder::new()
            .prefix(&prefix)
            .tempdir_in(&parent)
            .with_context(|| format!("cannot create a directory in `{}`", parent.display()));
        let temporary = self.written(temporary)?;
        // The lease of the directory outlives its renaming.
        let Some(lease) = Lease::take(temporary.path())? else {
            bail!("`{}` was removed while it was made", temporary.path().display())
        };
        make(temporary.path())?;
        manifest::write(temporary.path())?;
        let made = temporary.keep();
        fs::rename(&made, &path)?;
        Ok(lease.renamed(path))
    }
}

/// Returns whether `path` is an unfinished or half-removed entry.
pub fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

/// Returns the entries of `directory` whose names start with `prefix`.
fn named(directory: &Path, prefix: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?;
    let begins =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix));
    Ok(entries.flatten().map(|entry| entry.path()).filter(begins).collect())
}

/// Names an entry by a digest of everything that affects it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// Returns the entry's name, which contains only letters, digits, `-` and `.`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Collects everything that affects an entry.
#[derive(Default)]
pub struct KeyBuilder {
    digest: Sha256,
}

impl KeyBuilder {
    /// Adds one named input. Name and length are included, so that inputs cannot run into each
    /// other.
    pub fn input(mut self, name: &str, bytes: impl AsRef<[u8]>) -> KeyBuilder {
        let bytes = bytes.as_ref();
        self.digest.update((name.len() as u64).to_le_bytes());
        self.digest.update(name);
        self.digest.update((bytes.len() as u64).to_le_bytes());
        self.digest.update(bytes);
        self
    }

    /// Returns the key: `label`, for readers of the cache, followed by the digest.
    pub fn finish(self, label: &str) -> Key {
        let label: String =
            label.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
        Key(format!("{label}-{}", &crate::words::hex(&self.digest.finalize())[..16]))
    }
}

/// Returns path, size and modification time of a file, to identify it. Reading tens of megabytes of
/// kernel for each machine would cost as much as restoring it.
pub(crate) fn stamp(path: &Path) -> Result<String> {
    let path = fs::canonicalize(path)?;
    let data = fs::metadata(&path)?;
    Ok(format!("{} {} {}.{:09}", path.display(), data.size(), data.mtime(), data.mtime_nsec()))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::{
        cell::Cell,
        io::{BufRead, BufReader},
        process::{Child, Command, Stdio},
    };

    /// Starts a process that holds a shared lock on `directory` until its stdin is closed.
    pub(crate) fn user_of(directory: &Path) -> Child {
        let mut user = Command::new("flock")
            .args(["--shared", "--no-fork"])
            .arg(directory)
            .args(["sh", "-c", "echo locked; read -r line"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(user.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "locked\n");
        user
    }

    /// Checks whether `entry` makes the entry again after `damage` was done to it.
    fn check(damage: impl FnOnce(&Path), expect_made_again: bool) {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path()).unwrap();
        let key = KeyBuilder::default().input("x", "1").finish("thing");
        let made = Cell::new(0);
        let entry = || {
            cache.entry(
                "tools",
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
        cache.entry("tools", &key, || {}, |_| bail!("no")).unwrap_err();
        assert_eq!(fs::read_dir(directory.path().join("tools")).unwrap().count(), 0);
    }
}
