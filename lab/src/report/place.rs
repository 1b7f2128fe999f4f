//! Where results are put, and how they get there whole.

use super::Results;
use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use std::{
    fs,
    fs::File,
    io,
    io::Write,
    path::{Path, PathBuf},
};
use tempfile::{NamedTempFile, TempDir};

/// A scenario's directory while it is filled; it gets its name when it is complete.
pub struct Place {
    temporary: TempDir,
    target: PathBuf,
}

impl Place {
    /// A place for `relative` below the run's directory.
    pub fn new(run: &Path, relative: &str) -> Result<Place> {
        let target = run.join(relative);
        let parent = target.parent().unwrap_or(run);
        fs::create_dir_all(parent).with_context(|| format!("cannot make `{}`", parent.display()))?;
        Ok(Place { temporary: partial(parent)?, target })
    }

    /// The directory while it is filled.
    pub fn path(&self) -> &Path {
        self.temporary.path()
    }

    /// Gives it its name.
    pub fn put(self) -> Result<()> {
        let path = self.temporary.keep();
        // A temporary directory is private; a result is for whoever may read the run.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&path, mode).with_context(|| format!("cannot open up `{}`", path.display()))?;
        fs::rename(&path, &self.target)
            .with_context(|| format!("cannot put `{}` in place", self.target.display()))
    }
}

/// A directory in a run's for what has no name yet. It goes when it is dropped, and if the lab is
/// killed, with the next run.
pub(crate) fn partial(parent: &Path) -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix(PARTIAL)
        .tempdir_in(parent)
        .with_context(|| format!("cannot make a directory in `{}`", parent.display()))
}

/// A run's directory, held by the lab that fills it.
pub struct RunDirectory {
    path: PathBuf,
    marker: PathBuf,
    /// Locked as long as this lab lives.
    _lock: File,
}

/// In a run's directory while it is filled.
const MARKER: &str = ".running";

/// What the name of a scenario's directory begins with while it is filled.
const PARTIAL: &str = ".partial-";

impl RunDirectory {
    /// Makes the directory of a run, `results/<time>-<kernel>`, and clears away what labs that were
    /// killed had only half written.
    pub fn create(results: &Path, kernels: &[String]) -> Result<RunDirectory> {
        fs::create_dir_all(results).with_context(|| format!("cannot make `{}`", results.display()))?;
        sweep(results);
        let path = new_directory(results, kernels)?;
        let marker = path.join(MARKER);
        let lock = File::create(&marker).with_context(|| format!("cannot make `{}`", marker.display()))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .with_context(|| format!("cannot lock `{}`", marker.display()))?;
        Ok(RunDirectory { path, marker, _lock: lock })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        // Left behind, it costs the next run a look.
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
            // Another run of the same second.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                path.set_file_name(format!("{time}-{what}.{attempt}"));
            }
            Err(error) => return Err(error).with_context(|| format!("cannot make `{}`", path.display())),
            Ok(()) => break,
        }
    }
    path.canonicalize().with_context(|| format!("cannot resolve `{}`", path.display()))
}

/// Removes the half-written directories of runs whose lab is gone. What cannot be removed stays; it
/// is in nobody's way.
fn sweep(results: &Path) {
    let runs = fs::read_dir(results).into_iter().flatten().flatten();
    for run in runs.map(|entry| entry.path()) {
        let Ok(marker) = File::open(run.join(MARKER)) else { continue };
        if flock(&marker, FlockOperation::NonBlockingLockExclusive).is_ok() {
            remove_partial(&run, SCENARIO_DEPTH);
            let _ = fs::remove_file(run.join(MARKER));
        }
    }
}

/// Directories between a run's and a scenario's: the kernel's and those of the scenario's name.
const SCENARIO_DEPTH: usize = 8;

fn remove_partial(directory: &Path, depth: usize) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if entry.file_name().to_string_lossy().starts_with(PARTIAL) {
            let _ = fs::remove_dir_all(entry.path());
        } else if depth > 0 {
            remove_partial(&entry.path(), depth - 1);
        }
    }
}

/// The time now, RFC 3339.
pub fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The time now, in microseconds since 1970.
pub fn now_micros() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_microsecond()).unwrap_or_default()
}

/// Has `latest` in `results` point at a run.
pub fn point_latest(results: &Path, run: &Path) -> Result<()> {
    let link = results.join("latest");
    let temporary = results.join(format!(".latest-{}", std::process::id()));
    let name = run.file_name().unwrap_or(run.as_os_str());
    let pointed = std::os::unix::fs::symlink(name, &temporary).and_then(|()| fs::rename(&temporary, &link));
    pointed.with_context(|| format!("cannot point `{}` at `{}`", link.display(), run.display()))
}

/// Writes or replaces `results.json`.
pub fn write_json<S: Serialize>(results: &Results<S>, run: &Path) -> Result<()> {
    let mut json = serde_json::to_vec_pretty(results)?;
    json.push(b'\n');
    write_whole(&run.join("results.json"), &json)
}

/// Writes a file so that a reader sees the old one or the new one, never half of it.
pub(crate) fn write_whole(path: &Path, data: &[u8]) -> Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let write = || -> Result<()> {
        let mut file = NamedTempFile::new_in(directory)?;
        file.write_all(data)?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        file.as_file().set_permissions(mode)?;
        file.persist(path)?;
        Ok(())
    };
    write().with_context(|| format!("cannot write `{}`", path.display()))
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
        // As a kill does: the lock is gone, the marker is not.
        drop(killed);
        fs::write(killed_path.join(MARKER), "").unwrap();
        let alive = RunDirectory::create(results.path(), &["6.12".into()]).unwrap();
        assert!(!left.exists());
        assert!(killed_path.join("6.12/probes/whole").exists());
        let used = half(alive.path());
        let third = RunDirectory::create(results.path(), &["6.12".into()]).unwrap();
        assert!(used.exists(), "a run that is being filled was swept");
        assert_ne!(third.path(), alive.path());
        let path = third.path().to_owned();
        drop(third);
        assert!(!path.join(MARKER).exists());
    }
}
