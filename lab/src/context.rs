//! The lab that a command works with: its checkout, its cache, its progress.

use crate::{cache::Cache, progress::Progress};
use anyhow::Result;
use std::path::PathBuf;

/// What nearly every step that builds something needs. Cheap to clone; clones share one display.
#[derive(Clone, Debug)]
pub struct Lab {
    /// The checkout, with `kernels/`, `guest/` and `scenarios/`.
    pub root: PathBuf,
    /// The cache of everything that is built or downloaded.
    pub cache: Cache,
    /// Shows the progress of long tasks.
    pub progress: Progress,
}

impl Lab {
    /// Opens the checkout at `root` with the cache that the environment names. Progress goes to stderr.
    pub fn open(root: impl Into<PathBuf>) -> Result<Lab> {
        let progress = Progress::new();
        Ok(Lab { root: root.into(), cache: Cache::open(&progress)?, progress })
    }

    /// Returns this lab with the checkout at `root` instead.
    pub fn at(&self, root: impl Into<PathBuf>) -> Lab {
        Lab { root: root.into(), ..self.clone() }
    }
}
