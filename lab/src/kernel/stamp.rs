//! The stamp that marks a build as complete, written last and atomically.

use super::small_file::read_capped;
use crate::host::{beneath::open_beneath, whole::write_whole};
use anyhow::{Context, Result};
use fs_err as fs;
use serde::{Deserialize, Serialize};
use std::{os::unix::fs::MetadataExt, path::Path};

/// The inputs and outputs of a build.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Stamp {
    /// The key of all inputs.
    pub(super) key: String,
    /// The kernel release: the directory below /lib/modules.
    pub(super) release: String,
    /// SHA-256 of the final `.config`.
    pub(super) config_hash: String,
    /// Changes with what it was configured from.
    #[serde(default)]
    pub(super) configured: String,
    /// How long make ran.
    pub(super) seconds: f64,
    /// The number of objects it compiled.
    pub(super) objects: u64,
    /// The required files, relative to the build directory.
    pub(super) outputs: Vec<Output>,
}

/// The state of a file at the end of the build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Output {
    path: String,
    size_bytes: u64,
    /// In whole seconds since 1970, the resolution of an archive of the cache.
    modified: i64,
}

impl Output {
    /// Records the state of the file `path` of the build directory.
    pub(super) fn of(build: &Path, path: &str) -> Result<Output> {
        let file = open_beneath(build, path).with_context(|| format!("make left no usable `{path}`"))?;
        let data = file.metadata()?;
        Ok(Output { path: path.to_owned(), size_bytes: data.len(), modified: data.mtime() })
    }

    fn is_unchanged(&self, build: &Path) -> bool {
        Output::of(build, &self.path).is_ok_and(|now| now == *self)
    }
}

impl Stamp {
    /// Reads the stamp at `path`; `None` if there is none or it is corrupt.
    pub(super) fn load(path: &Path) -> Option<Stamp> {
        serde_json::from_str(&read_capped(path, 4 << 20).ok()?).ok()
    }

    /// Writes it to `path`.
    pub(super) fn store(&self, path: &Path) -> Result<()> {
        write_whole(path, serde_json::to_string_pretty(self)?)
    }

    /// Returns whether all outputs exist and are unchanged.
    pub(super) fn is_whole(&self, build: &Path) -> bool {
        self.outputs.iter().all(|output| output.is_unchanged(build))
    }

    /// Removes outputs that changed, so that make does not consider them up to date.
    pub(super) fn remove_damaged(&self, build: &Path) {
        for output in self.outputs.iter().filter(|output| !output.is_unchanged(build)) {
            let _ = fs::remove_file(build.join(&output.path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_is_whole_only_with_every_output_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let (build, path) = (directory.path(), directory.path().join("stamp.json"));
        fs::write(build.join("Image"), "image").unwrap();
        fs::write(build.join("vmlinux"), "vmlinux").unwrap();
        let stamp = Stamp {
            key: "k".into(),
            release: "6.12.107".into(),
            config_hash: "h".into(),
            configured: "c".into(),
            seconds: 1.5,
            objects: 2,
            outputs: vec![Output::of(build, "Image").unwrap(), Output::of(build, "vmlinux").unwrap()],
        };
        stamp.store(&path).unwrap();
        assert_eq!(Stamp::load(&path), Some(stamp.clone()));
        assert!(stamp.is_whole(build));
        fs::write(build.join("vmlinux"), "vml").unwrap();
        assert!(!stamp.is_whole(build));
        stamp.remove_damaged(build);
        assert!(!build.join("vmlinux").exists() && build.join("Image").exists());
        fs::write(&path, "{").unwrap();
        assert_eq!(Stamp::load(&path), None);
        assert!(
            format!("{:#}", Output::of(build, "none").unwrap_err()).contains("make left no usable `none`")
        );
    }
}
