//! A kernel → the archive of the files that its users read.

use super::Kernel;
use anyhow::{Context, Result};
use fs_err as fs;
use std::{
    io::Write,
    path::{Path, PathBuf},
};

/// Small enough, and packed in ten seconds.
const LEVEL: i32 = 9;

/// The directories of the source from which modules, headers and selftests are built, and in which the tests of
/// coverage look; the files next to them are kept, too. Drivers, filesystems and the rest are nine tenths of it.
const SOURCE: [&str; 11] = [
    "arch/arm64",
    "fs/debugfs",
    "fs/tracefs",
    "include",
    "init",
    "kernel",
    "lib",
    "mm",
    "samples",
    "scripts",
    "tools",
];

/// The other directories whose files, but not those below, are kept: `make headers` reads them.
const SOURCE_FILES: [&str; 3] = ["", "usr", "usr/include"];

/// Directories of these that are large, and not read.
const SKIPPED: [&str; 3] = ["arch/arm64/boot/dts", "tools/perf", "tools/testing/radix-tree"];

/// Returns the archive, compressed.
pub(super) fn pack(kernel: &Kernel) -> Result<Vec<u8>> {
    let place = kernel.directory.parent().context("a build without a directory")?;
    let mut compressed = zstd::Encoder::new(Vec::new(), LEVEL)?;
    compressed.multithread(2)?;
    let mut archive = tar::Builder::new(compressed);
    archive.follow_symlinks(false);
    append(&mut archive, &place.join("stamp.json"), Path::new("stamp.json"))?;
    for file in files(&kernel.directory, &|path| is_output(path))? {
        append(&mut archive, &kernel.directory.join(&file), &Path::new("output").join(&file))?;
    }
    for directory in SOURCE {
        let wanted =
            |path: &Path| !SKIPPED.iter().any(|skipped| path.starts_with(kernel.source.join(skipped)));
        let root = kernel.source.join(directory);
        if !root.is_dir() {
            continue;
        }
        for file in files(&root, &wanted)? {
            append(&mut archive, &root.join(&file), &Path::new("source").join(directory).join(&file))?;
        }
    }
    for directory in SOURCE_FILES {
        for entry in fs::read_dir(kernel.source.join(directory))? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                let name = Path::new("source").join(directory).join(entry.file_name());
                append(&mut archive, &entry.path(), &name)?;
            }
        }
    }
    Ok(archive.into_inner()?.finish()?)
}

fn append(archive: &mut tar::Builder<impl Write>, path: &Path, name: &Path) -> Result<()> {
    archive.append_path_with_name(path, name).with_context(|| format!("cannot pack `{}`", path.display()))
}

/// Returns the files and links below `root` for which `wanted` holds, sorted, relative to it.
fn files(root: &Path, wanted: &dyn Fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
    let (mut found, mut left) = (Vec::new(), vec![root.to_owned()]);
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if !wanted(&path) {
                continue;
            }
            if kind.is_dir() {
                left.push(path);
            } else if kind.is_file() || kind.is_symlink() {
                found.push(path.strip_prefix(root)?.to_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns whether a file of the output is read once the kernel is built. kbuild's link to the source is made again.
fn is_output(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if path.is_dir() && !path.is_symlink() {
        return true;
    }
    // Linked into every module since 6.13.
    let kept = name == ".module-common.o" || name == "module-common.o";
    let intermediate =
        [".o", ".a", ".cmd", ".d", ".mod", ".mod.c", ".order.tmp"].iter().any(|end| name.ends_with(end));
    let leftover = [".tmp_", ".vmlinux.export"].iter().any(|start| name.starts_with(start));
    kept || !(intermediate || leftover || name == "source" || name == "vmlinux.unstripped")
}
