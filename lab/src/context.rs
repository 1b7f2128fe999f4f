//! The lab that a command works with: its checkout, its cache, its progress.

use crate::{
    cache::{Cache, KeyBuilder},
    progress::Progress,
};
use anyhow::Result;
use fs_err as fs;
use std::path::{Path, PathBuf};

/// What nearly every step that builds something needs. Cheap to clone; clones share one display.
#[derive(Clone, Debug)]
pub struct Lab {
    /// The checkout, with `kernels/`, `guest/` and `scenarios/`.
    pub root: PathBuf,
    /// The cache of everything that is built or downloaded.
    pub cache: Cache,
    /// Shows the progress of long tasks.
    pub progress: Progress,
    /// Whether host packages that turn out to be missing may be installed.
    pub may_install: bool,
}

impl Lab {
    /// Opens the checkout at `root` with the cache that the environment names. Progress goes to stderr.
    pub fn open(root: impl Into<PathBuf>) -> Result<Lab> {
        let progress = Progress::new();
        Ok(Lab { root: root.into(), cache: Cache::open(&progress)?, progress, may_install: false })
    }

    /// A lab in a directory of its own, also its cache, without progress: for tests.
    #[doc(hidden)]
    pub fn alone(directory: &Path) -> Result<Lab> {
        let cache = Cache::at(directory.join("cache"))?;
        Ok(Lab { root: directory.to_owned(), cache, progress: Progress::silent(), may_install: false })
    }

    /// Returns this lab with the checkout at `root` instead.
    pub fn at(&self, root: impl Into<PathBuf>) -> Lab {
        Lab { root: root.into(), ..self.clone() }
    }
}

/// The files of the checkout in an installed lab.
#[derive(Clone, Copy, Debug)]
pub struct Checkout {
    /// Their names and contents.
    pub files: &'static [(&'static str, &'static [u8])],
    /// A digest of both, computed when the lab was built.
    pub digest: &'static str,
}

/// Returns the checkout of an installed lab, made in the cache from its files.
pub fn lay_out(checkout: &Checkout, cache: &Cache) -> Result<PathBuf> {
    cache.entry(
        "installed",
        &KeyBuilder::default().input("digest", checkout.digest).finish("checkout"),
        || {},
        |into| {
            for (name, content) in checkout.files {
                let path = into.join(name);
                path.parent().map_or(Ok(()), fs::create_dir_all)?;
                fs::write(&path, content)?;
            }
            Ok(())
        },
    )
}
