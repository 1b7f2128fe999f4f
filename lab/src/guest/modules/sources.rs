//! Reads the source files of a module or of selftests, so that builds and guests use a copy of them.
//!
//! A foreign directory may contain anything. Special files and links that lead out of it are errors, and
//! products of an earlier build in place and a project's results are not copied.

use crate::scenario::{PROJECT_FILE, ProgramSource};
use anyhow::{Result, bail};
use fs_err as fs;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// The maximum number of files, and their maximum size in total.
const FILES_MAX: usize = 1000;
const BYTES_MAX: u64 = 16 << 20;

/// The maximum depth of nested directories.
const DEPTH_MAX: usize = 16;

/// Suffixes of the files that kbuild creates.
const MADE: [&str; 6] = [".o", ".ko", ".mod", ".mod.c", "Module.symvers", "modules.order"];

/// Files by their path below the directory that they were read from.
pub(crate) type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Reads one of the lab's own modules, `all/NAME`, and the headers `all/*.h` that they share.
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

/// Reads a directory outside of the lab's own modules.
pub(crate) fn foreign(source: &Path) -> Result<Files> {
    if !["Kbuild", "Makefile"].iter().any(|name| source.join(name).is_file()) {
        bail!("`{}` has neither `Kbuild` nor `Makefile`", source.display());
    }
    let mut reading = Reading::of(source, "a module's sources")?;
    reading.collect(source, DEPTH_MAX)?;
    Ok(reading.files)
}

/// Reads what a workload of a scenario in `beside` is built from.
pub(crate) fn program(source: &ProgramSource, beside: &Path) -> Result<Files> {
    match source {
        ProgramSource::File(file) => workload(&beside.join(file)),
        ProgramSource::Made { directory, .. } => {
            let directory = beside.join(directory);
            let mut reading = Reading::of(&directory, "a program's sources")?;
            reading.collect(&directory, DEPTH_MAX)?;
            Ok(reading.files)
        }
    }
}

/// Reads a workload's C file and the headers next to it.
fn workload(file: &Path) -> Result<Files> {
    let beside = file.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let mut reading = Reading::of(beside, "a workload's sources")?;
    reading.take(file)?;
    for path in sorted(beside)? {
        if path.extension().is_some_and(|extension| extension == "h") {
            reading.take(&path)?;
        }
    }
    Ok(reading.files)
}

/// Reads the selftests in a directory of a kernel tree.
pub(in crate::guest) fn selftests(directory: &Path) -> Result<Files> {
    let mut reading = Reading::of(directory, "selftests")?;
    reading.collect(directory, DEPTH_MAX)?;
    Ok(reading.files)
}

/// Returns the files that a build left at or below a directory and that `is_it` accepts, without following links.
pub(in crate::guest) fn made(directory: &Path, is_it: &dyn Fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
    fn collect(
        directory: &Path,
        depth: usize,
        is_it: &dyn Fn(&Path) -> bool,
        made: &mut Vec<PathBuf>,
    ) -> Result<()> {
        for path in sorted(directory)? {
            let kind = fs::symlink_metadata(&path)?.file_type();
            if kind.is_dir() && depth > 0 {
                collect(&path, depth - 1, is_it, made)?;
            } else if kind.is_file() && is_it(&path) {
                made.push(path);
            }
        }
        Ok(())
    }
    let mut found = Vec::new();
    collect(directory, DEPTH_MAX, is_it, &mut found)?;
    Ok(found)
}

struct Reading<'a> {
    /// A description of the files, for messages.
    what: &'static str,
    base: &'a Path,
    /// The canonical path of `base`.
    real: PathBuf,
    files: Files,
    bytes: u64,
}

impl Reading<'_> {
    fn of<'a>(base: &'a Path, what: &'static str) -> Result<Reading<'a>> {
        Ok(Reading { what, base, real: fs::canonicalize(base)?, files: Files::new(), bytes: 0 })
    }

    fn collect(&mut self, directory: &Path, depth: usize) -> Result<()> {
        if depth == 0 {
            bail!("`{}` is more than {DEPTH_MAX} directories deep", directory.display());
        }
        for path in sorted(directory)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_results = name == "results" && directory.join(PROJECT_FILE).is_file();
            if name.starts_with('.') || is_results || MADE.iter().any(|made| name.ends_with(made)) {
                continue;
            }
            // cargo marks its own directory, as others mark caches.
            if path.join("CACHEDIR.TAG").is_file() {
                continue;
            }
            if fs::symlink_metadata(&path)?.is_dir() {
                self.collect(&path, depth - 1)?;
            } else {
                self.take(&path)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, path: &Path) -> Result<()> {
        let real = fs::canonicalize(path)?;
        if !real.starts_with(&self.real) {
            bail!("`{}` leads out of `{}`, expected files inside of it", path.display(), self.base.display());
        }
        let metadata = fs::metadata(&real)?;
        if !metadata.is_file() {
            bail!("`{}` is not a regular file, expected {}", path.display(), self.what);
        }
        self.bytes = self.bytes.saturating_add(metadata.len());
        if self.files.len() >= FILES_MAX || self.bytes > BYTES_MAX {
            bail!(
                "`{}` is too large for {}, expected at most {FILES_MAX} files and {} MiB",
                self.base.display(),
                self.what,
                BYTES_MAX >> 20
            );
        }
        let data = fs::read(&real)?;
        self.files.insert(path.strip_prefix(self.base).unwrap_or(path).to_owned(), data);
        Ok(())
    }
}

fn sorted(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.sort();
    Ok(paths)
}

/// Writes the files below a directory.
pub(crate) fn write(files: &Files, into: &Path) -> Result<()> {
    for (path, data) in files {
        let path = into.join(path);
        let parent = path.parent().unwrap_or(into);
        fs::create_dir_all(parent)?;
        fs::write(&path, data)?;
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
    fn a_workload_has_its_file_and_the_headers_beside_it() {
        let place = directory(&[
            ("in/mine.c", "1"),
            ("in/mine.h", "2"),
            ("in/other.c", "3"),
            ("in/deep/more.h", "4"),
            ("in/scenario.yaml", "5"),
            ("secret.c", "6"),
        ]);
        let at = |name: &str| place.path().join(name);
        let names =
            |files: Files| files.into_keys().map(|path| path.display().to_string()).collect::<Vec<_>>();
        assert_eq!(names(workload(&at("in/mine.c")).unwrap()), ["mine.c", "mine.h"]);
        let refused = |name: &str, expect: &str| {
            let error = workload(&at(name)).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        refused("in/none.c", "none.c");
        symlink(at("secret.c"), at("in/link.c")).unwrap();
        refused("in/link.c", "leads out of");
        refused("in/deep", "not a regular file");
        // A header that leads out is also refused if only the program could include it.
        symlink(at("secret.c"), at("in/link.h")).unwrap();
        refused("in/mine.c", "leads out of");
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
        check(&|path| symlink("nowhere", path.join("x.c")).unwrap(), "failed to canonicalize path");
        check(&|path| symlink(".", path.join("loop")).unwrap(), "is not a regular file");
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
