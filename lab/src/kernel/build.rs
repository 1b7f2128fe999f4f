//! The name of a kernel → the [`Kernel`], built out of tree in the cache, or found there.
//!
//! A build's entry in the cache is named by a digest of source, fragments and toolchain that needs no
//! make to compute, so an existing build is found without running it. A working tree has one directory
//! for all its states, so that a change costs only what kbuild rebuilds for it.

use super::{
    Kernel,
    config::{self, RequestedSymbol},
    distribution,
    kbuild::Build,
    patches::{self, Patch},
    portable::{Packed, Portable},
    resolved,
    spec::{KernelSpec, SourceSpec},
    toolchain,
    version::KernelVersion,
};
use crate::{
    cache::{Cache, Key, KeyBuilder},
    context::Lab,
    host::oci::Repository,
};
use anyhow::{Context, Error, Result, bail};
use std::path::{Path, PathBuf};

/// Raised when the layout of a build or the way it is made changes.
const LAYOUT: &str = "1";

/// Returns the kernel `name`, built unless the cache has it as described by its files in the checkout.
/// `tree`, if given, replaces its source.
pub fn build(lab: &Lab, name: &str, tree: Option<&Path>) -> Result<Kernel> {
    let mut spec = KernelSpec::load(&lab.root, name)?;
    match tree {
        Some(_) if matches!(spec.source, SourceSpec::DebianImage { .. }) => bail!(
            "the kernel `{name}` is a distribution kernel and has no fragments to build a tree with; name \
             a different one, such as `{}`",
            super::DEFAULT
        ),
        Some(tree) => {
            spec.bugs_may_be_fixed = true;
            of_source(lab, spec, &SourceSpec::Tree(std::path::absolute(tree)?))
        }
        None => build_spec(lab, spec),
    }
}

/// Like [`build`], but from exactly this version of its Debian package, or this commit, whatever its suite
/// or branch has now. Other sources are built unchanged.
pub fn build_exactly(lab: &Lab, name: &str, version: &str) -> Result<Kernel> {
    let mut spec = KernelSpec::load(&lab.root, name)?;
    spec.source = spec.source.exactly(version).map_err(Error::msg)?;
    build_spec(lab, spec)
}

/// Like [`build`], but for `spec`, which may differ from the file of that name.
pub fn build_spec(lab: &Lab, spec: KernelSpec) -> Result<Kernel> {
    if matches!(spec.source, SourceSpec::DebianImage { .. }) {
        return distribution::obtain(lab, spec);
    }
    let wanted = spec.source.clone();
    of_source(lab, spec, &wanted)
}

/// Returns the version with which [`build_exactly`] builds this kernel again: that of its package, or
/// its full commit hash.
pub fn exact_version(cache: &Cache, kernel: &Kernel) -> Result<String> {
    let known = resolved::known(cache, &kernel.spec.source)?;
    // The `source_version` of a commit is abbreviated.
    let known = known.filter(|known| known.starts_with(&kernel.source_version));
    Ok(known.unwrap_or_else(|| kernel.source_version.clone()))
}

fn of_source(lab: &Lab, spec: KernelSpec, wanted: &SourceSpec) -> Result<Kernel> {
    let name = spec.name.as_str();
    let patches = Patch::load_all(&lab.root, &spec.patches)?;
    let toolchain = toolchain::of(lab, &spec)?;
    let portable = Portable { lab, spec: &spec, source: wanted, patches: &patches, toolchain: &toolchain };
    if let Some(kernel) = portable.found_or_pulled()? {
        return Ok(kernel);
    }
    let source = patches::obtain(lab, wanted, &patches)
        .with_context(|| format!("cannot obtain the source of the kernel `{name}`"))?;
    let asked = config::ask(&lab.root, &spec.fragments, &source.version)?;
    let key = key(name, &source.key, &source.version, &asked, &toolchain);
    let place = if source.headers.is_some() {
        let tree = source.directory.as_os_str().as_encoded_bytes();
        let place = KeyBuilder::default().input("layout", LAYOUT).input("tree", tree);
        place.input("toolchain", &toolchain).finish(&format!("{name}-tree"))
    } else {
        key.clone()
    };
    let build =
        Build { lab, spec, source, asked, key, place: lab.cache.directory("builds")?.join(place.as_str()) };
    build.found_or_made(&place)
}

/// The cache entries of a kernel's build and source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The kernel's name.
    pub name: String,
    /// The entry of its build, below `builds`.
    pub key: String,
    /// The entry of its source, below `sources`, which kernels may share. A distribution kernel has none.
    pub source: Option<String>,
    /// The file that records what its suite or branch resolved to; not every source has one.
    pub remembered: PathBuf,
}

/// Returns the cache entries of the kernel `name`, which need not exist. For a Debian package, only
/// its version is looked up and nothing is downloaded.
pub fn identify(lab: &Lab, name: &str) -> Result<Identity> {
    let spec = KernelSpec::load(&lab.root, name)?;
    let remembered = resolved::remembered(&lab.cache, &spec.source)?;
    let identity = |key: Key, source| Identity {
        name: name.to_owned(),
        key: key.as_str().to_owned(),
        source,
        remembered,
    };
    if matches!(spec.source, SourceSpec::DebianImage { .. }) {
        return Ok(identity(distribution::identify(lab, &spec)?, None));
    }
    let patches = Patch::load_all(&lab.root, &spec.patches)?;
    let toolchain = toolchain::of(lab, &spec)?;
    let wanted = &spec.source;
    let portable = Portable { lab, spec: &spec, source: wanted, patches: &patches, toolchain: &toolchain };
    if let Some(kernel) = portable.found()? {
        return Ok(Identity {
            name: name.to_owned(),
            key: kernel.key,
            source: None,
            remembered: resolved::remembered(&lab.cache, wanted)?,
        });
    }
    let source = patches::identify(lab, wanted, &patches)
        .with_context(|| format!("cannot determine the source of the kernel `{name}`"))?;
    let asked = config::ask(&lab.root, &spec.fragments, &source.version)?;
    let key = key(name, &source.key, &source.version, &asked, &toolchain);
    Ok(identity(key, Some(source.key)))
}

/// Pulls the kernel `name` from `repository` into the cache, unless the cache has it.
///
/// # Errors
/// The repository does not have it, or what it has is not what its key says.
pub fn pull(lab: &Lab, name: &str, repository: &Repository) -> Result<Kernel> {
    let spec = KernelSpec::load(&lab.root, name)?;
    let patches = Patch::load_all(&lab.root, &spec.patches)?;
    let toolchain = toolchain::of(lab, &spec)?;
    let portable =
        Portable { lab, spec: &spec, source: &spec.source, patches: &patches, toolchain: &toolchain };
    portable.pull(repository)
}

/// Packs the kernel `name`, which is in the cache, for a registry.
pub fn pack(lab: &Lab, kernel: &Kernel) -> Result<Packed> {
    let spec = &kernel.spec;
    let patches = Patch::load_all(&lab.root, &spec.patches)?;
    let toolchain = toolchain::of(lab, spec)?;
    let portable = Portable { lab, spec, source: &spec.source, patches: &patches, toolchain: &toolchain };
    portable.pack(kernel, &exact_version(&lab.cache, kernel)?)
}

pub(super) fn key(
    name: &str,
    source: &str,
    version: &KernelVersion,
    asked: &[RequestedSymbol],
    toolchain: &str,
) -> Key {
    KeyBuilder::default()
        .input("layout", LAYOUT)
        .input("source", source)
        .input("config", config::allconfig(asked))
        .input("toolchain", toolchain)
        .finish(&format!("{name}-{version}"))
}

/// Forgets what the suite or branch of the kernel `name` resolved to, so that the next build looks again.
pub fn forget_source(lab: &Lab, name: &str) -> Result<()> {
    resolved::forget(&lab.cache, &KernelSpec::load(&lab.root, name)?.source)
}

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;
