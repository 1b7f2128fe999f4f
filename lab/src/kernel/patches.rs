//! `kernels/patches/NAME.patch`: changes that a kernel's description makes to its source.
//!
//! Patches are applied to a copy with its own cache entry, keyed by the source and the contents of the
//! patches. The copy consists of hard links; git replaces the files that it changes, so the source is
//! not modified.

use super::{
    small_file::read_capped,
    source::{self, Named},
    source_tree::{Source, hard_links},
    spec::{KernelSpec, SourceSpec, check_name, directory},
};
use crate::{
    cache::{Key, KeyBuilder},
    context::Lab,
    host::{
        confine::Reach,
        process::{Tool, which},
    },
};
use anyhow::{Context, Result, bail, ensure};
use fs_err as fs;
use std::path::Path;

/// Use a separate tree instead of a larger patch.
const PATCH_LIMIT_BYTES: u64 = 1 << 20;

/// Use a separate tree instead of more patches.
const PATCHES_MAX: usize = 64;

/// Checks that a kernel's description may have the patches that it names.
pub(super) fn check(spec: &KernelSpec) -> Result<(), String> {
    for patch in &spec.patches {
        check_name(patch).map_err(|error| error.to_string())?;
    }
    match &spec.source {
        _ if spec.patches.is_empty() => Ok(()),
        _ if spec.patches.len() > PATCHES_MAX => {
            Err(format!("it has {} patches, expected at most {PATCHES_MAX}", spec.patches.len()))
        }
        SourceSpec::Tree(_) => Err("patches are applied to a copy of the source, but source.tree is built \
                                    in place; apply them there"
            .into()),
        SourceSpec::DebianImage { .. } => Err("a debian-image is not built, so it takes no `patches`".into()),
        SourceSpec::Debian { .. } | SourceSpec::Tarball { .. } | SourceSpec::Git { .. } => Ok(()),
    }
}

/// One patch.
#[derive(Clone, Debug)]
pub(super) struct Patch {
    name: String,
    /// What git applies.
    pub(super) text: String,
}

impl Patch {
    /// Reads the patches `names`, which are plain names, below `root`, the checkout.
    pub(super) fn load_all(root: &Path, names: &[String]) -> Result<Vec<Patch>> {
        let load = |name: &String| {
            let path = directory(root).join("patches").join(format!("{name}.patch"));
            Ok(Patch { name: name.clone(), text: read_capped(&path, PATCH_LIMIT_BYTES)? })
        };
        names.iter().map(load).collect()
    }

    /// Applies it to `tree`, completely or not at all. git rejects paths that lead out of the tree, and
    /// context that does not match exactly.
    fn apply(&self, tree: &Path, scratch: &Path) -> Result<()> {
        let file = scratch.join(format!("{}.patch", self.name));
        fs::write(&file, &self.text)?;
        git_apply(tree, scratch).arg("--").arg(&file).run().with_context(|| {
            format!("the patch `kernels/patches/{}.patch` does not apply; refresh it", self.name)
        })?;
        Ok(fs::remove_file(&file)?)
    }
}

/// Returns `git apply`, which ignores configuration and any repository that contains the cache. It can only
/// write below `scratch`.
fn git_apply(tree: &Path, scratch: &Path) -> Tool {
    Tool::new("git")
        .confined(Reach::new(scratch))
        .env("GIT_CEILING_DIRECTORIES", scratch)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .arg("-C")
        .arg(tree)
        .args(["apply", "--verbose", "--whitespace=nowarn"])
}

/// Returns key, version and label of the source in `spec` with `patches` applied.
pub(super) fn identify(lab: &Lab, spec: &SourceSpec, patches: &[Patch]) -> Result<Named> {
    Ok(patched(source::identify(lab, spec)?, patches))
}

/// Returns key, version and label of a source with `patches` applied.
pub(super) fn patched(source: Named, patches: &[Patch]) -> Named {
    if patches.is_empty() {
        return source;
    }
    Named { key: key(&source, patches).as_str().to_owned(), label: label(&source, patches), ..source }
}

/// Names of patches are not part of the key: they do not affect the build.
fn key(source: &Named, patches: &[Patch]) -> Key {
    let key = KeyBuilder::default().input("source", &source.key);
    let key = patches.iter().fold(key, |key, patch| key.input("patch", &patch.text));
    key.finish(&format!("patched-{}", source.label))
}

/// Such as `6.12.107-1+watchpoint-cut`.
fn label(source: &Named, patches: &[Patch]) -> String {
    patches.iter().fold(source.label.clone(), |label, patch| label + "+" + &patch.name)
}

/// Obtains the source in `spec` with `patches` applied, in the cache. Paths are relative to the checkout.
pub(super) fn obtain(lab: &Lab, spec: &SourceSpec, patches: &[Patch]) -> Result<Source> {
    if patches.is_empty() {
        return source::obtain(lab, spec);
    }
    if let SourceSpec::Tree(tree) = spec {
        bail!(
            "patches of this kernel are applied to a copy of its source, but `{}` is built in place; use a \
             kernel without patches, and apply them there",
            tree.display()
        );
    }
    ensure!(which("git").is_some(), "cannot apply patches without git: install the package `git`");
    let original = source::identify(lab, spec)?;
    let (key, label) = (key(&original, patches), label(&original, patches));
    let patched = source::fetched(lab, &key, &label, |into| {
        let original = source::obtain(lab, spec)?;
        let tree = into.join("tree");
        let _task = lab.progress.task("patching a copy of the kernel source", None);
        hard_links(&original.directory, &tree)?;
        patches.iter().try_for_each(|patch| patch.apply(&tree, into))
    })?;
    // Keys use the version before patching, the one that is known without the source.
    Ok(Source { version: original.version, ..patched })
}

#[cfg(test)]
#[path = "patches_tests.rs"]
mod tests;
