//! The stamp that says a build is whole: written last, and all at once.

use super::{source::write_atomically, spec::read_capped};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::{fs, os::unix::fs::MetadataExt, path::Path};

/// What a build made, and from what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Stamp {
    /// The key of everything that shaped it.
    pub(super) key: String,
    /// What the kernel calls itself: the name below /lib/modules.
    pub(super) release: String,
    /// SHA-256 of the final `.config`.
    pub(super) config_hash: String,
    /// How long make took.
    pub(super) seconds: f64,
    /// How many objects it compiled.
    pub(super) objects: u64,
    /// The files that have to be there, relative to the build directory.
    pub(super) outputs: Vec<Output>,
}

/// A file as it was when the build was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Output {
    path: String,
    size_bytes: u64,
    /// In seconds since 1970: an archive of the cache keeps no more.
    modified: i64,
}

impl Output {
    /// Notes the file `path` of the build directory.
    pub(super) fn of(build: &Path, path: &str) -> Result<Output> {
        let file = build.join(path);
        let data = fs::metadata(&file).with_context(|| format!("make left no `{}`", file.display()))?;
        Ok(Output { path: path.to_owned(), size_bytes: data.len(), modified: data.mtime() })
    }

    fn is_unchanged(&self, build: &Path) -> bool {
        Output::of(build, &self.path).is_ok_and(|now| now == *self)
    }
}

impl Stamp {
    /// The stamp at `path`, if there is one that can be read.
    pub(super) fn load(path: &Path) -> Option<Stamp> {
        serde_json::from_str(&read_capped(path, 4 << 20).ok()?).ok()
    }

    /// Writes it to `path`.
    pub(super) fn store(&self, path: &Path) -> Result<()> {
        write_atomically(path, &serde_json::to_string_pretty(self)?)
    }

    /// Whether all it speaks of is there, and as it was.
    pub(super) fn is_whole(&self, build: &Path) -> bool {
        self.outputs.iter().all(|output| output.is_unchanged(build))
    }

    /// Removes what is not as it was, so that make does not take it for new.
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
        assert!(format!("{:#}", Output::of(build, "none").unwrap_err()).contains("make left no"));
    }
}
