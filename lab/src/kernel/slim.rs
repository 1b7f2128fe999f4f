//! What of the cache a job on some kernels needs, and what it weighs: the rest is removed, so that
//! what a CI service keeps between jobs is no larger than it has to be.
//!
//! A build without its object files boots, and modules are built against it. Should it have to be
//! made again, make compiles what is missing.

use super::Identity;
use crate::cache::Cache;
use anyhow::{Context, Result};
use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// What a directory of the cache is to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One build a kernel, under its key.
    Builds,
    /// One tree a source, under its key, and what suites stood for.
    Sources,
    /// Made from what else is there, in seconds; or of use to nobody but who builds.
    Remade,
    /// Needed, whichever kernel it is.
    Kept,
}

/// Directories of the cache. What is not listed is kept: it is small, or costs a download.
const KINDS: [(&str, Kind); 6] = [
    ("builds", Kind::Builds),
    ("sources", Kind::Sources),
    // Package lists, fetched anew each day.
    ("apt", Kind::Remade),
    // Intermediate files of the agent, which is in `agent`.
    ("agent-target", Kind::Remade),
    ("snapshots", Kind::Remade),
    // With an index for gdb, which only `userland` scenarios that attach crash ask for.
    ("vmlinux", Kind::Remade),
];

/// What is in the cache, or was: a path below it and its bytes on the disk.
pub type Sizes = BTreeMap<PathBuf, u64>;

/// What was kept and what was removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Slimmed {
    /// What is left, by entries of `builds` and `sources`, and by directory.
    pub kept: Sizes,
    /// What is gone.
    pub removed: Sizes,
}

/// The paths below the cache that a job on `kernel` cannot do without: its build and its source, with
/// what its suite stood for.
pub fn paths(cache: &Cache, kernel: &Identity) -> Vec<PathBuf> {
    let sources = cache.root().join("sources");
    let source = kernel.source.iter().map(|source| sources.join(source));
    let build = cache.root().join("builds").join(&kernel.key);
    [build]
        .into_iter()
        .chain(source)
        .chain(Some(kernel.remembered.clone()).filter(|path| path.is_file()))
        .collect()
}

/// The sizes of all there is.
pub fn sizes(cache: &Cache) -> Result<Sizes> {
    let mut sizes = Sizes::new();
    for (path, kind) in entries(cache)? {
        let relative = path.strip_prefix(cache.root()).unwrap_or(&path);
        let relative = match kind {
            Kind::Builds | Kind::Sources => relative.to_owned(),
            Kind::Remade | Kind::Kept => relative.components().take(1).collect(),
        };
        *sizes.entry(relative).or_default() += size(&path)?;
    }
    Ok(sizes)
}

/// Removes what jobs on `kernels` do not need. Nothing may be running that uses the cache.
pub fn slim(cache: &Cache, kernels: &[Identity]) -> Result<Slimmed> {
    let before = sizes(cache)?;
    for (path, kind) in entries(cache)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is = |key: &String| name == key.as_str();
        match kind {
            Kind::Builds if kernels.iter().any(|kernel| is(&kernel.key)) => {
                let output = path.join("output");
                // A kernel that was shipped has none.
                let thinned = if output.is_dir() { thin(&output, true) } else { Ok(()) };
                thinned.with_context(|| format!("cannot slim `{}`", path.display()))?;
            }
            // Small files beside the entries: object counts, what suites stand for.
            Kind::Builds | Kind::Sources if !path.is_dir() => {}
            Kind::Sources if kernels.iter().filter_map(|kernel| kernel.source.as_ref()).any(is) => {}
            Kind::Kept => {}
            Kind::Builds | Kind::Sources | Kind::Remade => remove(&path)?,
        }
    }
    let kept = sizes(cache)?;
    let gone = |(path, bytes): (PathBuf, u64)| {
        let left = kept.get(&path).copied().unwrap_or(0);
        (bytes > left).then_some((path, bytes - left))
    };
    let removed = before.into_iter().filter_map(gone).collect();
    Ok(Slimmed { kept, removed })
}

/// Every entry two levels below the cache, and what stands on the first as files.
fn entries(cache: &Cache) -> Result<Vec<(PathBuf, Kind)>> {
    let mut entries = Vec::new();
    for path in inside(cache.root())? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let kind = KINDS.into_iter().find(|(kind, _)| *kind == name).map_or(Kind::Kept, |(_, kind)| kind);
        // A link is someone else's: neither weighed nor removed.
        match fs::symlink_metadata(&path) {
            Ok(data) if data.is_dir() => entries.extend(inside(&path)?.into_iter().map(|path| (path, kind))),
            Ok(data) if data.is_file() => entries.push((path, kind)),
            _ => {}
        }
    }
    Ok(entries)
}

fn inside(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(directory).with_context(|| format!("cannot list `{}`", directory.display()))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.with_context(|| format!("cannot remove `{}`", path.display()))
}

/// Removes what only linking needs. The programs that kbuild runs on the host stay whole: modules are
/// built with them.
fn thin(directory: &Path, top: bool) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if entry.file_type()?.is_dir() {
            if !(top && matches!(&*name, "scripts" | "tools")) {
                thin(&entry.path(), false)?;
            }
        } else if is_intermediate(&name) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn is_intermediate(name: &str) -> bool {
    // 6.13 and later link this one into every module.
    let kept = name == ".module-common.o" || name == "module-common.o";
    let suffix = [".o", ".a", ".o.cmd", ".o.d"].iter().any(|suffix| name.ends_with(suffix));
    !kept && (suffix || name.starts_with(".tmp_vmlinux"))
}

/// Bytes on the disk: what is a hole takes none.
fn size(path: &Path) -> Result<u64> {
    let weigh = || -> io::Result<u64> {
        let data = fs::symlink_metadata(path)?;
        let mut bytes = data.blocks() * 512;
        if data.is_dir() {
            for entry in fs::read_dir(path)? {
                bytes += size(&entry?.path()).map_err(io::Error::other)?;
            }
        }
        Ok(bytes)
    };
    weigh().with_context(|| format!("cannot weigh `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_slimmed_to_what_a_kernel_needs() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::at(root.path()).unwrap();
        let all = [
            "builds/6.12-a/output/vmlinux",
            "builds/6.12-a/output/kernel/fork.o",
            "builds/6.12-a/output/.tmp_vmlinux1",
            "builds/6.12-a/output/scripts/mod/modpost.o",
            "builds/6.12-a/output/.module-common.o",
            "builds/6.12-a/stamp.json",
            "builds/6.1-b/output/vmlinux",
            "builds/6.12.objects",
            "sources/linux-6.12/tree/Makefile",
            "sources/linux-6.1/tree/Makefile",
            "sources/trixie.resolved",
            "snapshots/booted/ram",
            "userlands/debian/bin/sh",
            "times.json",
        ];
        for file in all {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        let kernel = Identity {
            name: "6.12".into(),
            key: "6.12-a".into(),
            source: Some("linux-6.12".into()),
            remembered: root.path().join("sources/trixie.resolved"),
        };
        let slimmed = slim(&cache, std::slice::from_ref(&kernel)).unwrap();
        let gone: Vec<_> = all.into_iter().filter(|file| !root.path().join(file).exists()).collect();
        assert_eq!(
            gone,
            [
                "builds/6.12-a/output/kernel/fork.o",
                "builds/6.12-a/output/.tmp_vmlinux1",
                "builds/6.1-b/output/vmlinux",
                "sources/linux-6.1/tree/Makefile",
                "snapshots/booted/ram",
            ]
        );
        let removed: Vec<_> = slimmed.removed.keys().map(|path| path.display().to_string()).collect();
        assert_eq!(removed, ["builds/6.1-b", "builds/6.12-a", "snapshots", "sources/linux-6.1"]);
        assert!(slimmed.kept.contains_key(Path::new("sources/linux-6.12")));
        let needed = paths(&cache, &kernel);
        assert!(needed[0].ends_with("builds/6.12-a") && needed[2].ends_with("sources/trixie.resolved"));
        // There is nothing more to remove.
        assert!(slim(&cache, &[kernel]).unwrap().removed.is_empty());
    }
}
