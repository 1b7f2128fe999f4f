//! Where results are put, and how they get there whole.

use super::Results;
use anyhow::{Context, Result};
use std::{
    fs, io,
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
        let temporary = tempfile::Builder::new()
            .prefix(".partial-")
            .tempdir_in(parent)
            .with_context(|| format!("cannot make a directory in `{}`", parent.display()))?;
        Ok(Place { temporary, target })
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

/// Makes the directory of a run: `results/<time>-<kernel>`.
pub fn create_directory(results: &Path, kernels: &[String]) -> Result<PathBuf> {
    fs::create_dir_all(results).with_context(|| format!("cannot make `{}`", results.display()))?;
    let what = match kernels {
        [kernel] => kernel.clone(),
        kernels => format!("{}-kernels", kernels.len()),
    };
    let time = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
    for attempt in 0.. {
        let suffix = if attempt == 0 { String::new() } else { format!(".{attempt}") };
        let path = results.join(format!("{time}-{what}{suffix}"));
        match fs::create_dir(&path) {
            Ok(()) => {
                return path.canonicalize().with_context(|| format!("cannot resolve `{}`", path.display()));
            }
            // Another run of the same second.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| format!("cannot make `{}`", path.display())),
        }
    }
    unreachable!("the loop ends by returning")
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
pub fn write_json(results: &Results, run: &Path) -> Result<()> {
    let mut json = serde_json::to_vec_pretty(results)?;
    json.push(b'\n');
    write_whole(&run.join("results.json"), &json)
}

/// Writes a file so that a reader sees the old one or the new one, never half of it.
pub(super) fn write_whole(path: &Path, data: &[u8]) -> Result<()> {
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
