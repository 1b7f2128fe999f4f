//! Modules in the cache by their build ID, and the names of their source files, for coverage.

use super::{LABEL, SOURCES};
use crate::{
    cache::{Cache, is_hidden},
    kernel::{build_id, module_name},
};
use anyhow::Result;
use fs_err as fs;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// The maximum depth of nested directories of sources.
const DEPTH_MAX: usize = 17;

/// A module that the lab built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundModule {
    /// The file with DWARF.
    pub(crate) debug: PathBuf,
    /// The sources that it was built from: copies, by their path below the directory that the label stands
    /// for.
    pub(crate) sources: BTreeMap<String, PathBuf>,
}

/// Returns the build of a module that has this build ID, if the cache still has it.
///
/// # Errors
/// The cache cannot be read.
pub(crate) fn find_module(cache: &Cache, name: &str, id: &str) -> Result<Option<FoundModule>> {
    for entry in
        fs::read_dir(cache.directory("modules")?)?.flatten().filter(|entry| !is_hidden(&entry.path()))
    {
        let files = fs::read_dir(entry.path())?.flatten().map(|file| file.path());
        let debug = files.filter(|file| file.extension().is_some_and(|extension| extension == "debug"));
        for debug in debug.filter(|file| module_name(file) == name) {
            let sources = entry.path().join(SOURCES);
            if sources.is_dir() && build_id(&debug).is_ok_and(|other| other == id) {
                let mut found = FoundModule { debug, sources: BTreeMap::new() };
                collect(&sources, "", DEPTH_MAX, &mut found.sources)?;
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

/// Collects the files below a directory, by their path.
fn collect(directory: &Path, below: &str, depth: usize, into: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        match entry.file_type()?.is_dir() {
            true if depth > 0 => collect(&entry.path(), &format!("{name}/"), depth - 1, into)?,
            true => {}
            false => drop(into.insert(name, entry.path())),
        }
    }
    Ok(())
}

impl FoundModule {
    /// Returns the names that coverage has for its source files, with the files, given their directory.
    pub(crate) fn names(&self, directory: &str) -> BTreeMap<String, PathBuf> {
        let base = if self.is_own(directory) { LABEL } else { directory };
        self.sources.iter().map(|(path, file)| (format!("{base}/{path}"), file.clone())).collect()
    }

    /// Returns the name that coverage has for a source file that the debug information calls `name`.
    pub(crate) fn name_of(&self, directory: &str, name: String) -> String {
        // The label is the name of the directory.
        match name.split_once('/') {
            Some((_, path)) if !self.is_own(directory) && self.sources.contains_key(path) => {
                format!("{directory}/{path}")
            }
            _ => name,
        }
    }

    /// Returns whether it is one of the lab's own modules, whose sources are with headers that all share.
    fn is_own(&self, directory: &str) -> bool {
        let rest = directory.strip_prefix(LABEL).and_then(|rest| rest.strip_prefix('/'));
        rest.is_some_and(|name| self.sources.keys().any(|path| Path::new(path).starts_with(name)))
    }
}

/// Returns the name that coverage has for a source file or directory: relative to the checkout at `root` or
/// to the kernel tree that it is in, otherwise absolute. What does not exist is one of a kernel tree already.
pub fn source_name(root: &Path, path: &str) -> String {
    let (Ok(full), Ok(root)) = (Path::new(path).canonicalize(), root.canonicalize()) else {
        return path.to_owned();
    };
    let tree = full.ancestors().find(|parent| *parent == root || is_kernel_tree(parent));
    let short = tree.and_then(|tree| full.strip_prefix(tree).ok());
    short.unwrap_or(&full).to_string_lossy().into_owned()
}

/// Returns whether a directory is a kernel tree.
pub fn is_kernel_tree(directory: &Path) -> bool {
    ["Kbuild", "Kconfig", "init/main.c"].iter().all(|name| directory.join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_file_is_named_by_its_tree() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().canonicalize().unwrap().join(name);
        for file in
            ["lab/guest/modules/a/a.c", "mine/mine.c", "linux/Kbuild", "linux/Kconfig", "linux/init/main.c"]
        {
            fs::create_dir_all(at(file).parent().unwrap()).unwrap();
            fs::write(at(file), "").unwrap();
        }
        let check = |path: &Path, expect: &str| {
            assert_eq!(source_name(&at("lab"), &path.to_string_lossy()), expect, "{}", path.display());
        };
        check(&at("lab/guest/modules/a"), "guest/modules/a");
        check(&at("mine/../lab/guest/modules/a/a.c"), "guest/modules/a/a.c");
        check(&at("mine/mine.c"), &at("mine/mine.c").to_string_lossy());
        check(&at("linux/init/main.c"), "init/main.c");
        check(&at("linux"), "");
        check(Path::new("kernel/kprobes.c"), "kernel/kprobes.c");
        check(Path::new("kernel/trace/*.c"), "kernel/trace/*.c");
    }

    #[test]
    fn a_module_is_found_by_its_build_id() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::at(root.path()).unwrap();
        assert_eq!(find_module(&cache, "a_b", "00").unwrap(), None);
        let entry = cache.directory("modules").unwrap().join("a-b-1");
        fs::create_dir_all(entry.join("source/deep")).unwrap();
        fs::write(entry.join("source/deep/x.c"), "").unwrap();
        fs::write(entry.join("a-b.ko.debug"), crate::kernel::text::SMALL_MODULE).unwrap();
        let id = build_id(&entry.join("a-b.ko.debug")).unwrap();
        let found = find_module(&cache, "a_b", &id).unwrap().unwrap();
        assert_eq!(found.sources.keys().collect::<Vec<_>>(), ["deep/x.c"]);
        assert_eq!(find_module(&cache, "a_b", &id[1..]).unwrap(), None);
        assert_eq!(find_module(&cache, "b", &id).unwrap(), None);
    }

    #[test]
    fn source_files_have_the_names_of_their_directory() {
        let check = |directory, files: &[&str], name: &str, expect| {
            let sources = files.iter().map(|file| ((*file).to_owned(), PathBuf::new())).collect();
            let found = FoundModule { debug: PathBuf::new(), sources };
            assert_eq!(found.name_of(directory, name.to_owned()), expect);
            assert_eq!(found.names(directory).contains_key(expect), !name.starts_with("include"), "{name}");
        };
        let own = ["a/a.c", "compat.h"];
        check("guest/modules/a", &own, "guest/modules/a/a.c", "guest/modules/a/a.c");
        check("guest/modules/a", &own, "guest/modules/compat.h", "guest/modules/compat.h");
        check("guest/modules/a", &own, "include/linux/fs.h", "include/linux/fs.h");
        // The same directory, named by a scenario.
        check("guest/modules/a", &["a.c"], "a/a.c", "guest/modules/a/a.c");
        check("/home/u/mine", &["deep/a.c"], "mine/deep/a.c", "/home/u/mine/deep/a.c");
        check("/home/u/mine", &["deep/a.c"], "include/linux/fs.h", "include/linux/fs.h");
    }
}
