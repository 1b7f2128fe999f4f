//! Where things are: the lab's own files, scenarios and results.

use anyhow::Result;
use lab::{cache::Cache, lay_out, progress::Progress, words::is_installed};
use std::{
    env,
    path::{Path, PathBuf},
    sync::OnceLock,
};

static ROOT: OnceLock<PathBuf> = OnceLock::new();

/// Sets the checkout, once.
pub(crate) fn set(root: PathBuf) {
    ROOT.get_or_init(|| root);
}

/// Lays out the checkout that is in the program, unless that was done.
pub(crate) fn lay_out_checkout(files: &[(&str, &[u8])]) -> Result<()> {
    if ROOT.get().is_none() {
        set(lay_out(files, &Cache::open(&Progress::new())?)?);
    }
    Ok(())
}

/// The checkout that this program was built from; of an installed program, its copy in the cache.
pub(crate) fn root() -> &'static Path {
    ROOT.get().map_or(Path::new("."), PathBuf::as_path)
}

/// The directory in which scenarios are looked up by name and new ones are created.
pub(crate) fn scenarios() -> PathBuf {
    env::var_os("FTRACE_LAB_SCENARIOS").map_or_else(|| root().join("scenarios"), PathBuf::from)
}

/// The directory of results, including the link `latest`.
pub(crate) fn results() -> PathBuf {
    let default = || if is_installed() { PathBuf::from("results") } else { root().join("results") };
    env::var_os("FTRACE_LAB_RESULTS").map_or_else(default, PathBuf::from)
}
