//! The files that a module is built from, and those of a selftest, read whole: what is built or
//! brought into a guest is a copy of them.
//!
//! A directory from elsewhere may hold anything, so what is no file is refused, a link may not lead
//! out of it, and what an earlier build in place left there stays there.

use anyhow::{Context, Result, bail};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Files that these may be, and their bytes in all.
const FILES_MAX: usize = 1000;
const BYTES_MAX: u64 = 16 << 20;

/// Directories inside directories.
const DEPTH_MAX: usize = 16;

/// What kbuild makes, by the end of its name.
const MADE: [&str; 6] = [".o", ".ko", ".mod", ".mod.c", "Module.symvers", "modules.order"];

/// Files by their path below the directory that they were read from.
pub(crate) type Files = BTreeMap<PathBuf, Vec<u8>>;

/// One of the lab's own modules, `all/NAME`, and the headers `all/*.h` that all of them share.
pub(crate) fn own(all: &Path, source: &Path) -> Result<Files> {
    let mut reading = Reading::of(all, "a module's sources")?;
    for path in sorted(all)? {
        if path.extension().is_some_and(|extension| extension == "h") && path.is_file() {
            reading.take(&path)?;
        }
    }
    reading.collect(source, DEPTH_MAX)?;
    Ok(reading.files)
}

/// A directory from elsewhere.
pub(crate) fn foreign(source: &Path) -> Result<Files> {
    if !["Kbuild", "Makefile"].iter().any(|name| source.join(name).is_file()) {
        bail!("`{}` has neither `Kbuild` nor `Makefile`, which say what to build", source.display());
    }
    let mut reading = Reading::of(source, "a module's sources")?;
    reading.collect(source, DEPTH_MAX)?;
    Ok(reading.files)
}

/// The selftests in a directory of a kernel tree.
pub(in crate::guest) fn selftests(directory: &Path) -> Result<Files> {
    let mut reading = Reading::of(directory, "selftests")?;
    reading.collect(directory, DEPTH_MAX)?;
    Ok(reading.files)
}

struct Reading<'a> {
    /// What they are the files of.
    what: &'static str,
    base: &'a Path,
    /// The same without links.
    real: PathBuf,
    files: Files,
    bytes: u64,
}

impl Reading<'_> {
    fn of<'a>(base: &'a Path, what: &'static str) -> Result<Reading<'a>> {
        let real = base.canonicalize().with_context(|| format!("cannot find `{}`", base.display()))?;
        Ok(Reading { what, base, real, files: Files::new(), bytes: 0 })
    }

    fn collect(&mut self, directory: &Path, depth: usize) -> Result<()> {
        if depth == 0 {
            bail!("`{}` is more than {DEPTH_MAX} directories deep", directory.display());
        }
        for path in sorted(directory)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with('.') || MADE.iter().any(|made| name.ends_with(made)) {
                continue;
            }
            let kind = fs::symlink_metadata(&path);
            let kind = kind.with_context(|| format!("cannot look at `{}`", path.display()))?;
            if kind.is_dir() { self.collect(&path, depth - 1)? } else { self.take(&path)? }
        }
        Ok(())
    }

    fn take(&mut self, path: &Path) -> Result<()> {
        let real = path.canonicalize().with_context(|| format!("cannot follow `{}`", path.display()))?;
        if !real.starts_with(&self.real) {
            bail!("`{}` leads out of `{}`, whose files are copied", path.display(), self.base.display());
        }
        let metadata = fs::metadata(&real).with_context(|| format!("cannot look at `{}`", path.display()))?;
        if !metadata.is_file() {
            bail!("`{}` is no file, expected {}", path.display(), self.what);
        }
        self.bytes = self.bytes.saturating_add(metadata.len());
        if self.files.len() >= FILES_MAX || self.bytes > BYTES_MAX {
            bail!(
                "`{}` is too much for {}, expected at most {FILES_MAX} files and {} MiB",
                self.base.display(),
                self.what,
                BYTES_MAX >> 20
            );
        }
        let data = fs::read(&real).with_context(|| format!("cannot read `{}`", path.display()))?;
        self.files.insert(path.strip_prefix(self.base).unwrap_or(path).to_owned(), data);
        Ok(())
    }
}

fn sorted(directory: &Path) -> Result<Vec<PathBuf>> {
    let listed = || format!("cannot list `{}`", directory.display());
    let entries = fs::read_dir(directory).with_context(listed)?;
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>().with_context(listed)?;
    paths.sort();
    Ok(paths)
}

/// Writes the files below a directory.
pub(in crate::guest) fn write(files: &Files, into: &Path) -> Result<()> {
    for (path, data) in files {
        let path = into.join(path);
        let parent = path.parent().unwrap_or(into);
        fs::create_dir_all(parent).with_context(|| format!("cannot make `{}`", parent.display()))?;
        fs::write(&path, data).with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        directory
    }

    #[test]
    fn an_own_module_has_its_files_and_the_shared_headers() {
        let all = directory(&[
            ("a/Kbuild", "obj-m := a.o"),
            ("a/a.c", "1"),
            ("a/deep/b.c", "2"),
            ("b/b.c", "3"),
            ("compat.h", ""),
            ("a/.a.o.cmd", "left by a build in place"),
        ]);
        let files = own(all.path(), &all.path().join("a")).unwrap();
        let names: Vec<_> = files.keys().map(|path| path.display().to_string()).collect();
        assert_eq!(names, ["a/Kbuild", "a/a.c", "a/deep/b.c", "compat.h"]);
    }

    #[test]
    fn what_a_build_in_place_left_is_not_copied() {
        let source = directory(&[
            ("Makefile", "obj-m := m.o"),
            ("m.c", ""),
            ("m.o", ""),
            ("m.ko", ""),
            ("m.mod.c", ""),
            ("Module.symvers", ""),
            (".git/config", ""),
            ("blob.o_shipped", ""),
        ]);
        symlink("m.c", source.path().join("n.c")).unwrap();
        let files = foreign(source.path()).unwrap();
        let names: Vec<_> = files.keys().map(|path| path.display().to_string()).collect();
        assert_eq!(names, ["Makefile", "blob.o_shipped", "m.c", "n.c"]);
    }

    #[test]
    fn what_is_no_source_is_refused() {
        let check = |prepare: &dyn Fn(&Path), expect: &str| {
            let source = directory(&[("Kbuild", "obj-m := m.o")]);
            prepare(source.path());
            let error = format!("{:#}", foreign(source.path()).unwrap_err());
            assert!(error.contains(expect), "{error}");
        };
        check(&|path| fs::remove_file(path.join("Kbuild")).unwrap(), "neither `Kbuild` nor `Makefile`");
        check(&|path| fs::remove_dir_all(path).unwrap(), "neither `Kbuild` nor `Makefile`");
        check(&|path| symlink("/etc/hostname", path.join("x.c")).unwrap(), "x.c` leads out of");
        check(&|path| symlink("nowhere", path.join("x.c")).unwrap(), "cannot follow");
        check(&|path| symlink(".", path.join("loop")).unwrap(), "is no file");
        check(
            &|path| fs::write(path.join("big"), vec![0; (16 << 20) + 1]).unwrap(),
            "at most 1000 files and 16 MiB",
        );
        check(&|path| fs::create_dir_all(path.join("d/".repeat(17))).unwrap(), "16 directories deep");
        check(
            &|path| (0..1000).for_each(|n| fs::write(path.join(format!("{n}.c")), "").unwrap()),
            "at most 1000 files",
        );
    }
}
