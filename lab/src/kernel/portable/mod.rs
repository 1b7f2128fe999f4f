//! A built kernel in a registry: what boots it and what modules, selftests and symbols need, and no more.
//!
//! `builds/KEY` of a kernel that was pulled has its build, a part of its source, and its [`Description`]. It is found
//! under the key of the build, and under keys that need no source to compute: by the version or commit of its source,
//! and by the suite or branch that it came from.

mod pack;
mod unpack;

use super::{
    Kernel,
    build::key,
    config,
    found_build::places,
    kbuild::Build,
    patches::{self, Patch},
    resolved,
    small_file::read_capped,
    source,
    source_tree::{Source, version_of},
    spec::{KernelSpec, SourceSpec, directory},
    version::KernelVersion,
};
use crate::{
    cache::{Key, KeyBuilder},
    context::Lab,
    host::oci::{Artifact, Repository},
};
use anyhow::{Context, Error, Result, bail, ensure};
use fs_err as fs;
use serde::{Deserialize, Serialize};
use std::{
    env,
    path::{Path, PathBuf},
};

/// Names the repository from which a kernel that is not in the cache is pulled.
pub const REGISTRY_VARIABLE: &str = "FTRACE_LAB_REGISTRY";

/// The name of the description in a build's directory.
const DESCRIPTION: &str = "pulled.json";

/// The most bytes of a description.
const DESCRIPTION_MAX: u64 = 1 << 20;

/// The most bytes of a fragment.
const FRAGMENT_MAX: u64 = 1 << 20;

/// The kind of an artifact.
const KIND: &str = "application/vnd.ftrace-lab.kernel.v1.tar+zstd";

/// The machines that the programs of a build run on: kbuild's programs are among its outputs.
const HOST: &str = env::consts::ARCH;

/// What a registry says of a kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    kernel: String,
    /// The key of its build.
    key: String,
    /// The architecture of the host that built it.
    host: String,
    /// The version in its Makefile.
    version: String,
    /// The version or commit that its suite or branch had.
    resolved: String,
    /// The tags that it is found under.
    tags: Vec<String>,
    /// The directories of output and source that it was built in.
    roots: Vec<PathBuf>,
}

impl Description {
    fn of(place: &Path) -> Option<Description> {
        serde_json::from_str(&read_capped(&place.join(DESCRIPTION), DESCRIPTION_MAX).ok()?).ok()
    }
}

/// Returns the directories in which a build was made that was pulled to `place`.
pub(super) fn roots(place: &Path) -> Vec<PathBuf> {
    Description::of(place).map(|description| description.roots).unwrap_or_default()
}

/// Returns whether the build in `place` was pulled.
pub(super) fn is_pulled(place: &Path) -> bool {
    place.join(DESCRIPTION).exists()
}

/// A kernel that is packed for a registry.
#[derive(Debug)]
pub struct Packed {
    /// The tags that it is found under; the first one is the key of its build.
    pub tags: Vec<String>,
    /// Its description and its files.
    pub artifact: Artifact,
}

/// A kernel that may come from a registry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Portable<'a> {
    pub(super) lab: &'a Lab,
    pub(super) spec: &'a KernelSpec,
    /// Its source, which may be another one than that of `spec`.
    pub(super) source: &'a SourceSpec,
    pub(super) patches: &'a [Patch],
    pub(super) toolchain: &'a str,
}

impl Portable<'_> {
    /// Returns the kernel if it was pulled before, or if the registry that the environment names has it; `None` if it
    /// must be built.
    pub(super) fn found_or_pulled(&self) -> Result<Option<Kernel>> {
        if let Some(kernel) = self.found()? {
            return Ok(Some(kernel));
        }
        let named = env::var(REGISTRY_VARIABLE).ok().filter(|named| !named.is_empty());
        let Some(named) = named.filter(|_| !matches!(self.source, SourceSpec::Tree(_))) else {
            return Ok(None);
        };
        let repository: Repository = named.parse().with_context(|| format!("wrong {REGISTRY_VARIABLE}"))?;
        if self.is_built_here()? {
            return Ok(None);
        }
        match self.pulled(&repository) {
            Ok(Some(kernel)) => return Ok(Some(kernel)),
            Ok(None) => self.say(format!("`{repository}` does not have the kernel {}", self.spec.name)),
            Err(error) if crate::host::interrupt::check().is_err() => return Err(error),
            Err(error) => self.say(format!("warning: {error:#}")),
        }
        Ok(None)
    }

    /// Returns the kernel if it was pulled before.
    pub(super) fn found(&self) -> Result<Option<Kernel>> {
        let known = resolved::known(&self.lab.cache, self.source)?;
        let pinned = match known {
            Some(version) => self.source.exactly(&version).map_err(Error::msg)?,
            None => self.source.clone(),
        };
        let (tag, version) =
            (self.tag(&pinned)?, KernelVersion { major: 0, minor: 0, patch: 0, candidate: None });
        if source::named(&pinned, version).is_none() {
            return Ok(None);
        }
        for place in places(&self.lab.cache)? {
            let Some(description) = Description::of(&place).filter(|found| found.tags.contains(&tag)) else {
                continue;
            };
            if let Some(kernel) = self.build(&place, &description, &pinned)?.if_found()? {
                return Ok(Some(kernel));
            }
            // It cannot be completed without its source.
            let _lock = self.lab.cache.lock(&format!("builds-{}", description.key), || {})?;
            fs::remove_dir_all(&place)?;
        }
        Ok(None)
    }

    /// Pulls the kernel, unless the cache has it.
    pub(super) fn pull(&self, repository: &Repository) -> Result<Kernel> {
        if matches!(self.source, SourceSpec::DebianImage { .. } | SourceSpec::Tree(_)) {
            bail!("the kernel `{}` is not built by the lab, so no registry has it", self.spec.name);
        }
        if let Some(kernel) = self.found()? {
            return Ok(kernel);
        }
        let found = self.pulled(repository)?;
        found.with_context(|| format!("`{repository}` does not have the kernel `{}`", self.spec.name))
    }

    fn pulled(&self, repository: &Repository) -> Result<Option<Kernel>> {
        let exact = source::exact(self.lab, self.source);
        let tag = self.tag(exact.as_ref().unwrap_or(self.source))?;
        let Some(found) = repository.find(&tag)? else { return Ok(None) };
        let name = format!("{repository} ({tag})");
        let description: Description = serde_json::from_str(&found.description)
            .with_context(|| format!("`{name}` is not a kernel of this lab"))?;
        ensure!(
            description.host == HOST && description.tags.contains(&tag),
            "`{name}` is another kernel: {} for hosts with {}",
            description.key,
            description.host
        );
        let exact = match exact {
            Ok(exact) => exact,
            Err(error) => {
                self.say(format!("{error:#}: takes version {} of `{repository}`", description.resolved));
                self.source.exactly(&description.resolved).map_err(Error::msg)?
            }
        };
        let place = self.lab.cache.directory("builds")?.join(&description.key);
        // Also compares the keys.
        let build =
            self.build(&place, &description, &exact).with_context(|| format!("`{name}` is refused"))?;
        let _lock = self.lab.cache.lock(&format!("builds-{}", description.key), || {})?;
        if !place.join("stamp.json").exists() {
            let task = format!("pulling the kernel {} ({})", self.spec.name, found.digest);
            let _task = self.lab.progress.task(task, None);
            unpack::unpack(repository, &found, &description, &place)?;
            self.lab.cache.make_room(&self.lab.progress);
        }
        resolved::resolve(&self.lab.cache, self.source, || Ok(description.resolved.clone()))?;
        build.if_found()?.with_context(|| format!("`{name}` is incomplete")).map(Some)
    }

    /// Packs a kernel that is in the cache.
    pub(super) fn pack(&self, kernel: &Kernel, resolved: &str) -> Result<Packed> {
        let exact = self.source.exactly(resolved).map_err(Error::msg)?;
        let mut tags = vec![format!("{}.{HOST}", kernel.key), self.tag(&exact)?, self.tag(self.source)?];
        tags.dedup();
        let description = Description {
            kernel: kernel.name.clone(),
            key: kernel.key.clone(),
            host: HOST.to_owned(),
            version: kernel.version.to_string(),
            resolved: resolved.to_owned(),
            tags: tags.clone(),
            roots: kernel.roots(),
        };
        let description = serde_json::to_vec(&description)?;
        let _task = self.lab.progress.task(format!("packing the kernel {}", kernel.name), None);
        let artifact = Artifact { kind: KIND, description, content: pack::pack(kernel)? };
        Ok(Packed { tags, artifact })
    }

    /// Returns whether the cache has the kernel's own build and its source.
    fn is_built_here(&self) -> Result<bool> {
        let cache = &self.lab.cache;
        let known = resolved::known(cache, self.source)?;
        let pinned = known.map_or_else(|| Ok(self.source.clone()), |version| self.source.exactly(&version));
        let pinned = pinned.map_err(Error::msg)?;
        let none = KernelVersion { major: 0, minor: 0, patch: 0, candidate: None };
        let Some(unpatched) = source::named(&pinned, none) else { return Ok(false) };
        let Ok(version) = version_of(&cache.root().join("sources").join(unpatched.key).join("tree")) else {
            return Ok(false);
        };
        let key = self.keys(&pinned, version)?.0;
        Ok(cache.root().join("builds").join(key.as_str()).join("stamp.json").exists())
    }

    /// Returns the key of the build, its source, and what it is configured with.
    fn keys(
        &self,
        pinned: &SourceSpec,
        version: KernelVersion,
    ) -> Result<(Key, source::Named, Vec<config::RequestedSymbol>)> {
        let named = source::named(pinned, version).context("a source without a version")?;
        let named = patches::patched(named, self.patches);
        let asked = config::ask(&self.lab.root, &self.spec.fragments, &version)?;
        Ok((key(&self.spec.name, &named.key, &version, &asked, self.toolchain), named, asked))
    }

    /// Returns the build that `description` describes, in `place`.
    fn build(&self, place: &Path, description: &Description, pinned: &SourceSpec) -> Result<Build<'_>> {
        let version: KernelVersion = description.version.parse()?;
        let (key, named, asked) = self.keys(pinned, version)?;
        ensure!(key.as_str() == description.key, "its key is {}, expected {}", description.key, key.as_str());
        let source = Source {
            directory: place.join("source"),
            version,
            label: named.label,
            key: named.key,
            headers: None,
            lease: None,
        };
        Ok(Build { lab: self.lab, spec: self.spec.clone(), source, asked, key, place: place.to_owned() })
    }

    /// Returns the tag of a kernel with this source, which need not be known.
    fn tag(&self, source: &SourceSpec) -> Result<String> {
        let fragments = directory(&self.lab.root);
        let mut tag = KeyBuilder::default()
            .input("source", format!("{source:?}"))
            .input("toolchain", self.toolchain)
            .input("host", HOST);
        for fragment in &self.spec.fragments {
            tag = tag
                .input("fragment", read_capped(&fragments.join(format!("{fragment}.config")), FRAGMENT_MAX)?);
        }
        let tag = self.patches.iter().fold(tag, |tag, patch| tag.input("patch", &patch.text));
        Ok(format!("{}.{HOST}", tag.finish(&format!("{}-as", self.spec.name)).as_str()))
    }

    fn say(&self, line: String) {
        self.lab.progress.line(line);
    }
}
