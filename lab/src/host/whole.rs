//! Files and directories that get their names when they are complete.
//!
//! Until then they are temporary siblings of the target, locked by the process that fills them. One that is
//! not locked was left by a killed process; it is removed when the same target is written again.

use anyhow::{Context, Result};
use fs_err::{self as fs, File};
use rustix::fs::{FlockOperation, flock};
use std::{
    fs::Metadata,
    io::{self, Write},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};
use tempfile::{Builder, TempDir};

/// The prefix of temporary names.
pub(crate) const PARTIAL: &str = ".partial-";

/// Writes a file atomically: a reader sees either the old or the new contents.
pub fn write_whole(path: &Path, data: impl AsRef<[u8]>) -> Result<()> {
    let write = || -> Result<()> {
        let (mut file, _lock) = locked(path, |temporary, parent| temporary.tempfile_in(parent))?;
        file.write_all(data.as_ref())?;
        file.as_file().set_permissions(PermissionsExt::from_mode(0o644))?;
        file.persist(path)?;
        Ok(())
    };
    write().with_context(|| format!("cannot write `{}`", path.display()))
}

/// Creates a directory that will be renamed to `target`, and returns it with its lock.
pub(crate) fn directory_for(target: &Path) -> Result<(TempDir, File)> {
    locked(target, |temporary, parent| temporary.tempdir_in(parent))
        .with_context(|| format!("cannot make a directory next to `{}`", target.display()))
}

/// Creates an empty file at `path` that is locked before it has its name, for as long as the returned file is
/// open.
pub(crate) fn locked_file(path: &Path) -> Result<File> {
    let create = || -> Result<File> {
        let (file, lock) = locked(path, |temporary, parent| temporary.tempfile_in(parent))?;
        file.persist(path)?;
        Ok(lock)
    };
    create().with_context(|| format!("cannot create `{}`", path.display()))
}

/// Removes the temporary siblings of `target` that killed processes left.
pub(crate) fn remove_left_of(target: &Path) {
    let (parent, prefix) = siblings(target);
    remove_left(parent, &prefix);
}

/// Returns the directory of the temporary siblings of `target`, and how their names begin.
fn siblings(target: &Path) -> (&Path, String) {
    let parent = target.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    (parent, format!("{PARTIAL}{}-", target.file_name().unwrap_or_default().to_string_lossy()))
}

/// Makes a temporary sibling of `target` and locks it, after removing those that killed processes left.
fn locked<T: AsRef<Path>>(
    target: &Path,
    make: impl Fn(&mut Builder<'_, '_>, &Path) -> io::Result<T>,
) -> io::Result<(T, File)> {
    let (parent, prefix) = siblings(target);
    remove_left(parent, &prefix);
    loop {
        let made = make(Builder::new().prefix(&prefix), parent)?;
        if let Some(lock) = lock(made.as_ref())? {
            return Ok((made, lock));
        }
    }
}

/// Locks what is at `path`. Returns `None` if another process took it for abandoned before it was locked.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    // Where files cannot be locked, nothing is ever taken for abandoned.
    let _ = flock(&file, FlockOperation::LockExclusive);
    let identity = |data: Metadata| (data.dev(), data.ino());
    let (open, there) = (file.metadata()?, path.metadata());
    Ok(there.is_ok_and(|there| identity(there) == identity(open)).then_some(file))
}

/// Removes the unlocked files and directories of `parent` whose names begin with `prefix`. Those that cannot
/// be removed stay; they do no harm.
fn remove_left(parent: &Path, prefix: &str) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let is_named = entry.file_name().to_string_lossy().starts_with(prefix);
        if !is_named || !(kind.is_dir() || kind.is_file()) {
            continue;
        }
        let path = entry.path();
        let Ok(file) = File::open(&path) else { continue };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = if kind.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        let (used, _lock) = directory_for(&at("report")).unwrap();
        fs::create_dir_all(at(".partial-report-abc/6.12")).unwrap();
        for name in [".partial-report-def", ".partial-other-abc", "report.txt"] {
            fs::write(at(name), "half").unwrap();
        }
        write_whole(&at("report"), b"whole").unwrap();
        let mut names: Vec<_> =
            fs::read_dir(parent.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        let mut expect = [at(".partial-other-abc"), at("report"), at("report.txt"), used.path().to_owned()];
        expect.sort();
        assert_eq!(names, expect);
        assert_eq!(fs::read_to_string(at("report")).unwrap(), "whole");
    }
}
