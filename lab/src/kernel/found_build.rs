//! Finds builds in the cache, for a result whose kernel has no description at hand.

use super::{
    distribution::Distribution,
    lists::{functions_in_file, modules_of},
    portable,
    stamp::Stamp,
};
use crate::{
    cache::{Cache, Lease, is_hidden},
    words::hex,
};
use anyhow::{Context, Result};
use fs_err::{self as fs, File};
use object::{Object, ReadCache};
use std::path::{Path, PathBuf};

/// A build in the cache, which is not evicted while it is used.
#[derive(Clone, Debug)]
pub struct FoundBuild {
    /// kbuild's output directory.
    output: PathBuf,
    _lease: Lease,
}

/// Returns the builds whose final `.config` has this digest. All states of a working tree share one
/// directory, so its build may be of a different state.
pub fn find_builds(cache: &Cache, config_hash: &str) -> Result<Vec<FoundBuild>> {
    let of_config = |place: &Path| {
        Stamp::load(&place.join("stamp.json")).is_some_and(|stamp| stamp.config_hash == config_hash)
    };
    let mut builds = Vec::new();
    for place in places(cache)?.iter().filter(|place| of_config(place)) {
        if let Some(lease) = Lease::take(place)? {
            builds.push(FoundBuild { output: place.join("output"), _lease: lease });
        }
    }
    Ok(builds)
}

/// Returns whether the cache has a distribution kernel, not a build, with this configuration.
pub fn was_distribution(cache: &Cache, config_hash: &str) -> Result<bool> {
    Ok(distribution(cache, config_hash)?.is_some())
}

/// Returns the functions of the distribution kernel with this configuration by address, in the format of
/// /proc/kallsyms; `None` if the cache has no such kernel.
///
/// # Errors
/// They were not read from a guest yet.
pub fn distribution_functions(cache: &Cache, config_hash: &str) -> Result<Option<String>> {
    let found = distribution(cache, config_hash)?;
    found.map(|found| functions_in_file(&found.symbols())).transpose()
}

fn distribution(cache: &Cache, config_hash: &str) -> Result<Option<Distribution>> {
    Ok(places(cache)?.iter().find_map(|place| Distribution::with_config(place, config_hash)))
}

/// Returns the directories of all builds.
pub(super) fn places(cache: &Cache) -> Result<Vec<PathBuf>> {
    let builds = cache.directory("builds")?;
    let entries = fs::read_dir(&builds)?;
    Ok(entries.flatten().map(|entry| entry.path()).filter(|path| !is_hidden(path)).collect())
}

impl FoundBuild {
    /// A build whose output is said to be in `output`, with a lease of `place`.
    #[cfg(test)]
    pub(crate) fn of_test(output: &Path, place: &Path) -> FoundBuild {
        FoundBuild { output: output.to_owned(), _lease: Lease::take(place).unwrap().unwrap() }
    }

    /// The ELF file with symbols and DWARF.
    pub fn vmlinux(&self) -> PathBuf {
        self.output.join("vmlinux")
    }

    /// The build ID of its vmlinux.
    pub fn build_id(&self) -> Result<String> {
        build_id(&self.vmlinux())
    }

    /// The directories of source and output: the prefixes of source file names in debug information.
    pub fn roots(&self) -> Vec<PathBuf> {
        // kbuild's link to the source tree.
        let source = self.output.join("source").canonicalize();
        let built_in = self.output.parent().map(portable::roots).unwrap_or_default();
        source.into_iter().chain([self.output.clone()]).chain(built_in).collect()
    }

    /// Its functions by address, in the format of /proc/kallsyms.
    pub fn functions(&self) -> Result<String> {
        functions_in_file(&self.output.join("System.map"))
    }

    /// The kernel's own modules, as paths of `.ko` files.
    pub fn modules(&self) -> Result<Vec<PathBuf>> {
        modules_of(&self.output)
    }
}

/// Returns the build ID of an ELF file.
pub(crate) fn build_id(path: &Path) -> Result<String> {
    let file = ReadCache::new(File::open(path)?);
    let id = object::File::parse(&file)?.build_id()?.map(hex);
    id.context("it has no build ID")
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
        let digest = crate::words::hex(&Sha256::digest("CONFIG_KPROBES=y\n"));
        assert!(was_distribution(&cache, &digest).unwrap());
        assert!(find_builds(&cache, &digest).unwrap().is_empty());
        assert!(!was_distribution(&cache, &digest[1..]).unwrap());
        assert!(distribution_functions(&cache, &digest).is_err());
        fs::write(place.join("System.map"), "ffff800080000000 T f\nffff800080000010 D d\n").unwrap();
        let functions = |digest| distribution_functions(&cache, digest).unwrap();
        assert_eq!(functions(&digest).unwrap(), "ffff800080000000 T f\n");
        assert_eq!(functions(&digest[1..]), None);
    }
}
