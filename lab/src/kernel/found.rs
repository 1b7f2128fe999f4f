//! Builds that are in the cache, for who has a result and no description of its kernel.

use super::{shipped::Shipped, stamp::Stamp};
use crate::cache::Cache;
use anyhow::{Context, Result};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A build in the cache: kbuild's output directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundBuild(PathBuf);

/// The builds whose final `.config` has this digest. Of a working tree there is one directory for all
/// its states, so the build itself may be another one.
pub fn find_builds(cache: &Cache, config_hash: &str) -> Result<Vec<FoundBuild>> {
    let of_config = |place: &PathBuf| {
        Stamp::load(&place.join("stamp.json")).is_some_and(|stamp| stamp.config_hash == config_hash)
    };
    let places = places(cache)?.into_iter().filter(of_config);
    Ok(places.map(|place| FoundBuild(place.join("output"))).collect())
}

/// Whether a kernel of the cache with this configuration is as it was shipped: there is no build of it.
pub fn was_shipped(cache: &Cache, config_hash: &str) -> Result<bool> {
    Ok(places(cache)?.iter().any(|place| Shipped::has_config(place, config_hash)))
}

fn places(cache: &Cache) -> Result<Vec<PathBuf>> {
    let builds = cache.directory("builds")?;
    let entries = fs::read_dir(&builds).with_context(|| format!("cannot list `{}`", builds.display()))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

impl FoundBuild {
    /// The ELF file with symbols and DWARF.
    pub fn vmlinux(&self) -> PathBuf {
        self.0.join("vmlinux")
    }

    /// Where it and its source are: what names of source files begin with.
    pub fn roots(&self) -> Vec<PathBuf> {
        // kbuild links the source tree of an output directory there.
        let source = self.0.join("source").canonicalize();
        source.into_iter().chain([self.0.clone()]).collect()
    }

    /// Its functions by address, as /proc/kallsyms has them.
    pub fn functions(&self) -> Result<String> {
        functions_in_file(&self.0.join("System.map"))
    }

    /// The kernel's own modules, as paths of `.ko` files.
    pub fn modules(&self) -> Result<Vec<PathBuf>> {
        super::modules_of(&self.0)
    }
}

/// The functions of the kernel whose System.map is at `path`.
pub(super) fn functions_in_file(path: &Path) -> Result<String> {
    let map = fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    Ok(super::functions_in(&map))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    #[test]
    fn a_shipped_kernel_is_known_by_its_configuration() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::at(root.path()).unwrap();
        let place = cache.directory("builds").unwrap().join("debian-13-x");
        fs::create_dir(&place).unwrap();
        fs::write(place.join("config"), "CONFIG_KPROBES=y\n").unwrap();
        let digest = crate::cache::hex(&Sha256::digest("CONFIG_KPROBES=y\n"));
        assert!(was_shipped(&cache, &digest).unwrap());
        assert!(find_builds(&cache, &digest).unwrap().is_empty());
        assert!(!was_shipped(&cache, &digest[1..]).unwrap());
    }
}
