//! The lab that a command works with: its checkout, its cache, its progress.

use crate::{
    cache::{Cache, KeyBuilder},
    progress::Progress,
};
use anyhow::Result;
use fs_err as fs;
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

/// Returns the checkout of an installed lab, made in the cache from its `files`: their names and contents.
pub fn lay_out(files: &[(&str, &[u8])], cache: &Cache) -> Result<PathBuf> {
    let key = files.iter().fold(KeyBuilder::default(), |key, (name, content)| key.input(name, content));
    cache.entry(
        "installed",
        &key.finish("checkout"),
        || {},
        |into| {
            for (name, content) in files {
                let path = into.join(name);
                path.parent().map_or(Ok(()), fs::create_dir_all)?;
                fs::write(&path, content)?;
            }
            Ok(())
        },
    )
}
