//! `kernels/patches/NAME.patch`: what a kernel's description changes in its source.
//!
//! Patches are applied to a copy, an entry of the cache of its own, keyed by the source and by what
//! the patches say. Its files are hard links to those of the source; git writes what it changes
//! anew, so the source stays as it was.

use super::{
    source::{self, Named, Source},
    spec::{KernelSpec, SourceSpec, check_name, directory, read_capped},
};
use crate::{
    cache::{Cache, Key, KeyBuilder},
    host::process::{Tool, which},
    progress::Progress,
};
use anyhow::{Context, Result, bail, ensure};
use std::{fs, path::Path};

/// A longer patch is a tree of its own.
const PATCH_LIMIT_BYTES: u64 = 1 << 20;

/// More patches are a tree of their own.
const PATCHES_MAX: usize = 64;

/// Whether a kernel's description may have the patches that it names.
pub(super) fn check(spec: &KernelSpec) -> Result<(), String> {
    for patch in &spec.patches {
        check_name(patch).map_err(|error| error.to_string())?;
    }
    match &spec.source {
        _ if spec.patches.is_empty() => Ok(()),
        _ if spec.patches.len() > PATCHES_MAX => {
            Err(format!("it has {} patches, expected {PATCHES_MAX} at most", spec.patches.len()))
        }
        SourceSpec::Tree(_) => Err("patches are applied to a copy of the source, and source.tree is built \
                                    where it is; apply them there"
            .into()),
        SourceSpec::DebianImage { .. } => {
            Err("a debian-image is as it was shipped, and takes no `patches`".into())
        }
        SourceSpec::Debian { .. } | SourceSpec::Tarball { .. } | SourceSpec::Git { .. } => Ok(()),
    }
}

/// One patch.
#[derive(Clone, Debug)]
pub(super) struct Patch {
    name: String,
    text: String,
}

impl Patch {
    /// Those of the checkout `root` that are called `names`, which are plain names.
    pub(super) fn load_all(root: &Path, names: &[String]) -> Result<Vec<Patch>> {
        let load = |name: &String| {
            let path = directory(root).join("patches").join(format!("{name}.patch"));
            let text = read_capped(&path, PATCH_LIMIT_BYTES)
                .with_context(|| format!("cannot read the patch `{}`", path.display()))?;
            Ok(Patch { name: name.clone(), text })
        };
        names.iter().map(load).collect()
    }

    /// Applies it to `tree`, all of it or nothing. git takes no path that leads out of the tree, and
    /// no context that only resembles the patch's.
    fn apply(&self, tree: &Path, scratch: &Path) -> Result<()> {
        let file = scratch.join(format!("{}.patch", self.name));
        fs::write(&file, &self.text).with_context(|| format!("cannot write `{}`", file.display()))?;
        git_apply(tree).arg("--").arg(&file).run().with_context(|| {
            format!("the patch `kernels/patches/{}.patch` does not apply; refresh it", self.name)
        })?;
        fs::remove_file(&file).with_context(|| format!("cannot remove `{}`", file.display()))
    }
}

/// git, as if there were no repository around the cache and nothing were configured.
fn git_apply(tree: &Path) -> Tool {
    let git = Tool::new("git").directory(tree).env("LC_ALL", "C");
    let git = ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"].into_iter().fold(git, Tool::env_remove);
    git.env("GIT_CEILING_DIRECTORIES", tree.parent().unwrap_or(tree))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .args(["apply", "--verbose", "--whitespace=nowarn"])
}

/// What the source `spec` names is called with `patches`.
pub(super) fn identify(
    cache: &Cache,
    root: &Path,
    spec: &SourceSpec,
    patches: &[Patch],
    progress: &Progress,
) -> Result<Named> {
    let source = source::identify(cache, root, spec, progress)?;
    if patches.is_empty() {
        return Ok(source);
    }
    Ok(Named { key: key(&source, patches).as_str().to_owned(), label: label(&source, patches), ..source })
}

/// What a patch is called is nothing to the build.
fn key(source: &Named, patches: &[Patch]) -> Key {
    let key = KeyBuilder::default().input("source", &source.key);
    let key = patches.iter().fold(key, |key, patch| key.input("patch", &patch.text));
    key.finish(&format!("patched-{}", source.label))
}

/// `6.12.107-1+watchpoint-cut`
fn label(source: &Named, patches: &[Patch]) -> String {
    patches.iter().fold(source.label.clone(), |label, patch| label + "+" + &patch.name)
}

/// The source `spec` names, with `patches`, in the cache. Paths are relative to `root`.
pub(super) fn obtain(
    cache: &Cache,
    root: &Path,
    spec: &SourceSpec,
    patches: &[Patch],
    progress: &Progress,
) -> Result<Source> {
    if patches.is_empty() {
        return source::obtain(cache, root, spec, progress);
    }
    if let SourceSpec::Tree(tree) = spec {
        bail!(
            "this kernel has patches, which are applied to a copy of its source, and `{}` is built where it \
             is; take the kernel without patches, and apply them there",
            tree.display()
        );
    }
    ensure!(which("git").is_some(), "cannot apply patches without git: install the package `git`");
    let original = source::identify(cache, root, spec, progress)?;
    let (key, label) = (key(&original, patches), label(&original, patches));
    let patched = source::fetched(cache, &key, &label, progress, |into| {
        let original = source::obtain(cache, root, spec, progress)?;
        let tree = into.join("tree");
        let _task = progress.task("patching a copy of the kernel source", None);
        Tool::new("cp")
            .args(["--archive", "--link", "--"])
            .arg(&original.directory)
            .arg(&tree)
            .run()
            .with_context(|| format!("cannot copy `{}`", original.directory.display()))?;
        patches.iter().try_for_each(|patch| patch.apply(&tree, into))
    })?;
    // Its key was made with the version before, which is what is known without the source.
    Ok(Source { version: original.version, ..patched })
}

#[cfg(test)]
#[path = "patches_tests.rs"]
mod tests;
