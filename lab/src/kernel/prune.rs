//! Prunes the cache to what a job on some kernels needs, and measures it, so that the cache that a CI
//! service keeps between jobs is as small as possible.
//!
//! A build without its object files still boots, and modules can be built against it. If it must be
//! rebuilt, make compiles the missing objects.

use super::build::Identity;
use crate::cache::{Cache, remove_in_place, size_on_disk};
use anyhow::Result;
use fs_err as fs;
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

/// The kind of entries in a directory of the cache, which decides whether they are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PruneKind {
    /// One build per kernel, under its key.
    Builds,
    /// One tree per source, under its key, and the versions that suites resolved to.
    Sources,
    /// Recreated from the rest in seconds, or needed only to build.
    Remade,
    /// Needed for any kernel.
    Kept,
}

/// Directories of the cache. Others are kept: they are small, or cost a download.
const KINDS: [(&str, PruneKind); 8] = [
    ("builds", PruneKind::Builds),
    ("sources", PruneKind::Sources),
    // Package lists, fetched again each day.
    ("apt", PruneKind::Remade),
    // Intermediate files of the agent and the plugin; the results are in `agent` and `plugin`.
    ("agent-target", PruneKind::Remade),
    ("plugin-target", PruneKind::Remade),
    ("snapshots", PruneKind::Remade),
    // What kernels run until their snapshots are made.
    ("coverage", PruneKind::Remade),
    // With an index for gdb, used only by `userland` scenarios that attach crash.
    ("vmlinux", PruneKind::Remade),
];

/// The prefix of an entry's name while it is being removed.
const REMOVED: &str = ".removed-";

/// Paths below the cache, each with the bytes that it takes on disk.
pub type Sizes = BTreeMap<PathBuf, u64>;

/// The result of pruning.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// The sizes that are left, per entry of `builds` and `sources`, else per directory.
    pub kept: Sizes,
    /// The sizes that were removed.
    pub removed: Sizes,
}

/// Returns the paths below the cache that a job on `kernel` needs: its build, its source, and the version
/// that its suite resolved to.
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

/// Returns the sizes of everything in the cache.
pub fn sizes(cache: &Cache) -> Result<Sizes> {
    let mut sizes = Sizes::new();
    for (path, kind) in entries(cache)? {
        let relative = path.strip_prefix(cache.root()).unwrap_or(&path);
        let relative = match kind {
            PruneKind::Builds | PruneKind::Sources => relative.to_owned(),
            PruneKind::Remade | PruneKind::Kept => relative.components().take(1).collect(),
        };
        *sizes.entry(relative).or_default() += size_on_disk(&path)?;
    }
    Ok(sizes)
}

/// Removes what jobs on `kernels` do not need.
///
/// # Errors
/// The directory is not only the lab's, or another process uses it; then nothing is removed.
pub fn prune(cache: &Cache, kernels: &[Identity]) -> Result<Pruned> {
    cache.check_own()?;
    let _alone = cache.alone()?;
    let before = sizes(cache)?;
    for (path, kind) in entries(cache)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is = |key: &String| name == key.as_str();
        match kind {
            PruneKind::Builds if kernels.iter().any(|kernel| is(&kernel.key)) => {
                let output = path.join("output");
                // A distribution kernel has none.
                if output.is_dir() {
                    remove_objects(&output, true)?;
                }
            }
            // Small files next to the entries: object counts, resolved versions.
            PruneKind::Builds | PruneKind::Sources if !path.is_dir() => {}
            PruneKind::Sources if kernels.iter().filter_map(|kernel| kernel.source.as_ref()).any(is) => {}
            PruneKind::Kept => {}
            PruneKind::Builds | PruneKind::Sources | PruneKind::Remade => remove(&path)?,
        }
    }
    let kept = sizes(cache)?;
    let gone = |(path, bytes): (PathBuf, u64)| {
        let left = kept.get(&path).copied().unwrap_or(0);
        (bytes > left).then_some((path, bytes - left))
    };
    let removed = before.into_iter().filter_map(gone).collect();
    Ok(Pruned { kept, removed })
}

/// Returns all entries two levels below the cache, and the files one level below it except its mark.
fn entries(cache: &Cache) -> Result<Vec<(PathBuf, PruneKind)>> {
    let mut entries = Vec::new();
    for path in inside(cache.root())? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let kind =
            KINDS.into_iter().find(|(kind, _)| *kind == name).map_or(PruneKind::Kept, |(_, kind)| kind);
        // A symlink points to someone else's files: neither measured nor removed.
        match fs::symlink_metadata(&path) {
            Ok(data) if data.is_dir() => entries.extend(inside(&path)?.into_iter().map(|path| (path, kind))),
            Ok(data) if data.is_file() && !Cache::is_mark(&path) => entries.push((path, kind)),
            _ => {}
        }
    }
    Ok(entries)
}

fn inside(directory: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(fs::read_dir(directory)?.flatten().map(|entry| entry.path()).collect())
}

/// Removes an entry. It loses its name first: if the lab is killed, no half of it passes for an entry.
fn remove(path: &Path) -> io::Result<()> {
    if !path.is_dir() {
        return fs::remove_file(path);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with(REMOVED) {
        return fs::remove_dir_all(path);
    }
    let removed = path.with_file_name(format!("{REMOVED}{name}"));
    if removed.exists() {
        fs::remove_dir_all(&removed)?;
    }
    match fs::rename(path, &removed) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => remove_in_place(path),
        renamed => renamed.and_then(|()| fs::remove_dir_all(&removed)),
    }
}

/// Removes files that only linking needs. The programs that kbuild runs on the host are kept, since
/// modules are built with them.
fn remove_objects(directory: &Path, top: bool) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if entry.file_type()?.is_dir() {
            if !(top && matches!(&*name, "scripts" | "tools")) {
                remove_objects(&entry.path(), false)?;
            }
        } else if is_intermediate(&name) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn is_intermediate(name: &str) -> bool {
    // Linked into every module since 6.13.
    let kept = name == ".module-common.o" || name == "module-common.o";
    let suffix = [".o", ".a", ".o.cmd", ".o.d"].iter().any(|suffix| name.ends_with(suffix));
    !kept && (suffix || name.starts_with(".tmp_vmlinux"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::tests::user_of;

    #[test]
    fn a_directory_with_things_of_others_is_not_pruned() {
        let root = tempfile::tempdir().unwrap();
        for directory in ["builds/website", "sources/novel", "snapshots/of-the-cat", "mail"] {
            fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        let cache = Cache::at(root.path()).unwrap();
        let error = prune(&cache, &[]).unwrap_err().to_string();
        assert!(error.contains("`mail` in it is not the lab's"), "{error}");
        assert_eq!(sizes(&cache).unwrap().len(), 3);
    }

    #[test]
    fn a_cache_that_another_process_uses_is_not_pruned() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::at(root.path()).unwrap();
        fs::create_dir_all(root.path().join("snapshots/booted")).unwrap();
        let mut user = user_of(root.path());
        let error = prune(&cache, &[]).unwrap_err().to_string();
        assert!(error.contains("another process uses it"), "{error}");
        assert!(root.path().join("snapshots/booted").exists());
        user.kill().unwrap();
        user.wait().unwrap();
        prune(&cache, &[]).unwrap();
        assert!(!root.path().join("snapshots/booted").exists());
    }

    #[test]
    fn a_cache_is_pruned_to_what_a_kernel_needs() {
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
        let pruned = prune(&cache, std::slice::from_ref(&kernel)).unwrap();
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
        let removed: Vec<_> = pruned.removed.keys().map(|path| path.display().to_string()).collect();
        assert_eq!(removed, ["builds/6.1-b", "builds/6.12-a", "snapshots", "sources/linux-6.1"]);
        assert!(pruned.kept.contains_key(Path::new("sources/linux-6.12")));
        let needed = paths(&cache, &kernel);
        assert!(needed[0].ends_with("builds/6.12-a") && needed[2].ends_with("sources/trixie.resolved"));
        // There is nothing more to remove.
        assert!(prune(&cache, &[kernel]).unwrap().removed.is_empty());
    }
}
