//! Directories of runs and scenarios.

use super::Results;
use crate::host::whole::{PARTIAL, directory_for, locked_file, remove_left_of, write_whole};
use anyhow::{Context, Result};
use fs_err::{self as fs, File, os::unix::fs::symlink};
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use serde::Serialize;
use std::{
    io,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// A directory while it is being filled. It gets its final name when it is complete.
pub struct PendingDirectory {
    temporary: TempDir,
    target: PathBuf,
    /// Locked as long as this process lives, unless the whole run is.
    _lock: Option<File>,
}

impl PendingDirectory {
    /// Creates a temporary directory that will become `relative` in the run's directory.
    pub fn new(run: &Path, relative: impl AsRef<Path>) -> Result<PendingDirectory> {
        let target = run.join(relative);
        let parent = target.parent().unwrap_or(run);
        fs::create_dir_all(parent)?;
        Ok(PendingDirectory { temporary: partial(parent)?, target, _lock: None })
    }

    /// Creates a temporary directory that will become `target`, which is not in a run's directory.
    pub fn next_to(target: &Path) -> Result<PendingDirectory> {
        let (temporary, lock) = directory_for(target)?;
        Ok(PendingDirectory { temporary, target: target.to_owned(), _lock: Some(lock) })
    }

    /// The temporary directory.
    pub fn path(&self) -> &Path {
        self.temporary.path()
    }

    /// Gives the directory its final name.
    pub fn put(self) -> Result<()> {
        self.open_up()?;
        fs::rename(self.path(), &self.target)?;
        let _ = self.temporary.keep();
        Ok(())
    }

    /// Like [`put`](PendingDirectory::put), but replaces the directory that has the final name, in one step.
    pub fn replace(self) -> Result<()> {
        self.open_up()?;
        renameat_with(CWD, self.path(), CWD, &self.target, RenameFlags::EXCHANGE)
            .with_context(|| format!("cannot replace `{}`", self.target.display()))?;
        // The temporary name is now that of the old directory.
        Ok(self.temporary.close()?)
    }

    /// Makes the directory, which is private as a temporary one, as readable as its run.
    fn open_up(&self) -> Result<()> {
        Ok(fs::set_permissions(self.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?)
    }
}

/// Creates a directory in `parent` for files without a final name yet. It is removed on drop, or by the
/// next run if the lab is killed.
pub(crate) fn partial(parent: &Path) -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix(PARTIAL)
        .tempdir_in(parent)
        .with_context(|| format!("cannot make a directory in `{}`", parent.display()))
}

/// A run's directory, locked by the lab that fills it.
pub struct RunDirectory {
    path: PathBuf,
    marker: PathBuf,
    /// Locked as long as this process lives.
    _lock: File,
}

/// The lock file in a run's directory while it is being filled.
const MARKER: &str = ".running";

impl RunDirectory {
    /// Creates the directory of a run, `results/<time>-<kernel>`, and removes partial results of killed
    /// labs.
    pub fn create(results: &Path, kernels: &[String]) -> Result<RunDirectory> {
        fs::create_dir_all(results)?;
        sweep(results);
        let path = new_directory(results, kernels)?;
        let marker = path.join(MARKER);
        let lock = locked_file(&marker)?;
        Ok(RunDirectory { path, marker, _lock: lock })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        // If it stays, the next run removes it.
        let _ = fs::remove_file(&self.marker);
    }
}

fn new_directory(results: &Path, kernels: &[String]) -> Result<PathBuf> {
    let what = match kernels {
        [kernel] => kernel.clone(),
        kernels => format!("{}-kernels", kernels.len()),
    };
    let time = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
    let mut path = results.join(format!("{time}-{what}"));
    for attempt in 1.. {
        match fs::create_dir(&path) {
            // Another run started in the same second.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                path.set_file_name(format!("{time}-{what}.{attempt}"));
            }
            Err(error) => return Err(error.into()),
            Ok(()) => break,
        }
    }
    Ok(fs::canonicalize(path)?)
}

/// Removes the partial files and directories of runs whose lab has exited. Those that cannot be removed
/// stay; they do no harm.
fn sweep(results: &Path) {
    let runs = fs::read_dir(results).into_iter().flatten().flatten();
    for run in runs.map(|entry| entry.path()) {
        let marker = run.join(MARKER);
        remove_left_of(&marker);
        let Ok(lock) = File::open(&marker) else { continue };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            remove_partial(&run, SCENARIO_DEPTH);
            let _ = fs::remove_file(&marker);
        }
    }
}

/// The maximum number of directories between that of a run and that of a scenario: the kernel's and
/// those in the scenario's name.
const SCENARIO_DEPTH: usize = 8;

fn remove_partial(directory: &Path, depth: usize) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let is_partial = entry.file_name().to_string_lossy().starts_with(PARTIAL);
        match (is_directory, is_partial) {
            (true, true) => drop(fs::remove_dir_all(entry.path())),
            (false, true) => drop(fs::remove_file(entry.path())),
            (true, false) if depth > 0 => {
                remove_partial(&entry.path(), depth - 1);
                // The directory of a bisection has those of runs.
                let _ = fs::remove_file(entry.path().join(MARKER));
            }
            _ => {}
        }
    }
}

/// Returns the current time as RFC 3339.
pub fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Returns the current time in microseconds since 1970.
pub fn now_micros() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_microsecond()).unwrap_or_default()
}

/// Makes the link `latest` in `results` point at a run, whose [`RunDirectory`] still exists.
pub(crate) fn point_latest(results: &Path, run: &Path) -> Result<()> {
    let link = results.join("latest");
    // In the run's own directory, so that its name is free, and the next run removes it if the lab is killed.
    let temporary = run.join(format!("{PARTIAL}latest"));
    let name = run.file_name().unwrap_or(run.as_os_str());
    symlink(name, &temporary)?;
    Ok(fs::rename(&temporary, &link)?)
}

/// Writes or replaces `results.json`.
pub fn write_json<S: Serialize>(results: &Results<S>, run: &Path) -> Result<()> {
    let mut json = serde_json::to_vec_pretty(results)?;
    json.push(b'\n');
    write_whole(&run.join("results.json"), &json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_run_had_half_written_is_swept_and_nothing_else() {
        let results = tempfile::tempdir().unwrap();
        let half = |run: &Path| {
            let half = run.join("6.12/probes/.partial-abc");
            fs::create_dir_all(&half).unwrap();
            fs::create_dir_all(run.join("6.12/probes/whole")).unwrap();
            half
        };
        let killed = RunDirectory::create(results.path(), &["6.12".into()]).unwrap();
        let (killed_path, left) = (killed.path().to_owned(), half(killed.path()));
        // Like after a kill: the lock is released, the marker remains.
        drop(killed);
        fs::write(killed_path.join(MARKER), "").unwrap();
        let alive = RunDirectory::create(results.path(), &["6.12".into()]).unwrap();
        assert!(!left.exists());
        assert!(killed_path.join("6.12/probes/whole").exists());
        let used = half(alive.path());
        fs::create_dir_all(killed_path.join("nested")).unwrap();
        for marker in [".running", "nested/.running"] {
            fs::write(killed_path.join(marker), "").unwrap();
        }
        let third = RunDirectory::create(results.path(), &["6.12".into()]).unwrap();
        assert!(!killed_path.join(MARKER).exists() && !killed_path.join("nested/.running").exists());
        assert!(used.exists(), "a run that is being filled was swept");
        assert_ne!(third.path(), alive.path());
        let path = third.path().to_owned();
        drop(third);
        assert!(!path.join(MARKER).exists());
    }
}
