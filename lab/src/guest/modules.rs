//! Kernel modules for one kernel: `guest/modules/NAME/`, a Kbuild and its C files, built against it,
//! or one of the kernel's own by name.
//!
//! What is built is a copy in the cache, keyed by the sources and the kernel, so the sources are not
//! written to, and unchanged means no make. Headers beside the directories, `guest/modules/*.h`, are
//! there for all of them as `../NAME.h`.

use super::CROSS_GCC;
use crate::{
    cache::{Cache, Key, KeyBuilder},
    host::process::Tool,
    kernel::{Kernel, complaints},
    progress::Progress,
    scenario::{Scenario, Step, nearest},
};
use anyhow::{Context, Result, anyhow, bail};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// How sources are called in debug information, warnings of the kernel, and messages.
const LABEL: &str = "guest/modules";

/// Files that a module's sources may be, and their bytes in all.
const FILES_MAX: usize = 1000;
const BYTES_MAX: usize = 16 << 20;

/// A module that was built for one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// As the kernel calls it: with `_`, never `-`.
    pub name: String,
    /// What is loaded: a `.ko` without debug information.
    pub file: PathBuf,
    /// The same with DWARF.
    pub debug: PathBuf,
}

/// Where modules come from.
#[derive(Clone, Debug)]
pub struct Modules {
    cache: Cache,
    sources: PathBuf,
    progress: Progress,
}

impl Modules {
    /// Those of the directory `sources`, `guest/modules`.
    pub fn new(cache: &Cache, sources: PathBuf, progress: &Progress) -> Modules {
        Modules { cache: cache.clone(), sources, progress: progress.clone() }
    }

    /// All that a scenario loads, by the name it uses, built if need be.
    pub fn of(&self, scenario: &Scenario, kernel: &Kernel) -> Result<BTreeMap<String, Module>> {
        let names: BTreeSet<&str> = scenario
            .steps
            .iter()
            .filter_map(|step| match &step.value {
                Step::Load(load) => Some(load.load.as_str()),
                _ => None,
            })
            .collect();
        names.into_iter().map(|name| Ok((name.to_owned(), self.find(kernel, name)?))).collect()
    }

    /// The module `name` for this kernel: the lab's own of that name, else the kernel's own.
    pub fn find(&self, kernel: &Kernel, name: &str) -> Result<Module> {
        let source = self.sources.join(name);
        if source.join("Kbuild").is_file() {
            return self.build(kernel, name, &source);
        }
        match kernel.find_module(name)? {
            Some(file) => self.strip(kernel, name, &file),
            None => Err(anyhow!("no module is called `{name}`{}", self.hint(kernel, name))),
        }
    }

    fn hint(&self, kernel: &Kernel, name: &str) -> String {
        let own = fs::read_dir(&self.sources).into_iter().flatten().flatten();
        let own = own.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let kernels = kernel.modules().unwrap_or_default();
        let kernels =
            kernels.iter().filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()));
        let known: Vec<String> = own.filter(|name| !name.contains('.')).chain(kernels).collect();
        let near = nearest(name, known.iter().map(String::as_str));
        near.map(|near| format!("; the nearest is `{near}`")).unwrap_or_default()
    }

    fn build(&self, kernel: &Kernel, name: &str, source: &Path) -> Result<Module> {
        let files = read_sources(&self.sources, source)?;
        let key = key(&kernel.key, name, &files);
        let waiting = || self.progress.line(format!("another lab is building the module {name}; waiting"));
        let entry = self.cache.entry("modules", &key, waiting, |into| {
            let _task = self.progress.task(format!("building the module {name} for {}", kernel.name), None);
            let build = into.join("build");
            for (path, data) in &files {
                let path = build.join(path);
                let parent = path.parent().unwrap_or(&build);
                fs::create_dir_all(parent).with_context(|| format!("cannot make `{}`", parent.display()))?;
                fs::write(&path, data).with_context(|| format!("cannot write `{}`", path.display()))?;
            }
            make(kernel, &build, name, source)?;
            let made = build.join(name).join(format!("{name}.ko"));
            let debug = into.join(format!("{name}.ko.debug"));
            fs::rename(&made, &debug)
                .with_context(|| format!("`{}` did not make `{name}.ko`", source.join("Kbuild").display()))?;
            fs::remove_dir_all(&build).with_context(|| format!("cannot remove `{}`", build.display()))?;
            strip(&debug, &into.join(format!("{name}.ko")))
        })?;
        Ok(Module {
            name: name.replace('-', "_"),
            file: entry.join(format!("{name}.ko")),
            debug: entry.join(format!("{name}.ko.debug")),
        })
    }

    /// One of the kernel's own. Its debug information is most of it, and an emulated guest would read
    /// that too.
    fn strip(&self, kernel: &Kernel, name: &str, file: &Path) -> Result<Module> {
        let data = fs::metadata(file).with_context(|| format!("cannot look at `{}`", file.display()))?;
        let key = KeyBuilder::default()
            .input("kernel", &kernel.key)
            .input("module", file.as_os_str().as_encoded_bytes())
            .input("size", data.len().to_le_bytes())
            .input("mtime", data.mtime().to_le_bytes())
            .finish(name);
        let entry =
            self.cache.entry("modules", &key, || {}, |into| strip(file, &into.join(format!("{name}.ko"))))?;
        let stripped = entry.join(format!("{name}.ko"));
        Ok(Module { name: name.replace('-', "_"), file: stripped, debug: file.to_owned() })
    }
}

/// The files to be copied, by their path in the copy: those of the module, and the headers that all
/// modules share.
fn read_sources(all: &Path, source: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(all).with_context(|| format!("cannot list `{}`", all.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "h") && path.is_file() {
            take(all, &path, &mut files)?;
        }
    }
    collect(all, source, &mut files)?;
    Ok(files)
}

fn collect(base: &Path, directory: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> Result<()> {
    let listed = || format!("cannot list `{}`", directory.display());
    for entry in fs::read_dir(directory).with_context(listed)? {
        let entry = entry.with_context(listed)?;
        let kind = entry.file_type().with_context(listed)?;
        if kind.is_dir() {
            collect(base, &entry.path(), files)?;
        } else if !entry.file_name().to_string_lossy().starts_with('.') {
            take(base, &entry.path(), files)?;
        }
    }
    Ok(())
}

fn take(base: &Path, path: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> Result<()> {
    let data = fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let bytes: usize = files.values().map(Vec::len).sum();
    if files.len() >= FILES_MAX || bytes + data.len() > BYTES_MAX {
        bail!("`{}` is too much for a module's sources", base.display());
    }
    files.insert(path.strip_prefix(base).unwrap_or(path).to_owned(), data);
    Ok(())
}

fn key(kernel: &str, name: &str, files: &BTreeMap<PathBuf, Vec<u8>>) -> Key {
    let mut key = KeyBuilder::default().input("kernel", kernel).input("name", name).input("layout", "1");
    for (path, data) in files {
        key = key.input(&path.to_string_lossy(), data);
    }
    key.finish(name)
}

/// Runs kbuild on the copy in `build`. Warnings are errors: these modules are the lab's own.
fn make(kernel: &Kernel, build: &Path, name: &str, source: &Path) -> Result<()> {
    let log = build.join("make.log");
    let module = build.join(name);
    let made = kernel
        .make()
        .arg(format!("M={}", module.display()))
        .arg("W=1")
        // The copy's path is nobody's business, and would be another one each time.
        .arg(format!("KCFLAGS=-ffile-prefix-map={}={LABEL}", build.display()))
        .arg("modules")
        // It would rewrite the paths that are mapped above, and has nothing to save here.
        .env("CCACHE_DISABLE", "1")
        .log(&log)
        .run();
    let text = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
    // The compiler speaks of the copy; a person wants to open the source.
    let text = text.replace(&*module.to_string_lossy(), &source.to_string_lossy());
    let failed = || format!("cannot build the module `{}` for {}", source.display(), kernel.name);
    if let Err(error) = made {
        let said = complaints(&text);
        return Err(if said.is_empty() { error } else { anyhow!(said) }).with_context(failed);
    }
    let warnings: Vec<&str> = text.lines().filter(|line| line.contains(" warning: ")).take(10).collect();
    if !warnings.is_empty() {
        return Err(anyhow!(warnings.join("\n"))).with_context(failed);
    }
    Ok(())
}

fn strip(from: &Path, to: &Path) -> Result<()> {
    Tool::new(CROSS_GCC.replace("gcc", "strip"))
        .args(["--strip-debug", "-o"])
        .arg(to)
        .arg(from)
        .run()
        .with_context(|| format!("cannot strip `{}`", from.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_keyed_by_kernel_sources_and_shared_headers() {
        let directory = tempfile::tempdir().unwrap();
        let all = directory.path();
        for (path, text) in
            [("a/Kbuild", "obj-m := a.o"), ("a/a.c", "1"), ("a/deep/b.c", "2"), ("b/b.c", "3")]
        {
            fs::create_dir_all(all.join(path).parent().unwrap()).unwrap();
            fs::write(all.join(path), text).unwrap();
        }
        fs::write(all.join("a/.a.o.cmd"), "left by a build in place").unwrap();
        let of = |kernel: &str| key(kernel, "a", &read_sources(all, &all.join("a")).unwrap());
        let files = read_sources(all, &all.join("a")).unwrap();
        let names: Vec<_> = files.keys().map(|path| path.display().to_string()).collect();
        assert_eq!(names, ["a/Kbuild", "a/a.c", "a/deep/b.c"]);
        let first = of("k1");
        assert_eq!(first, of("k1"));
        assert_ne!(first, of("k2"));
        fs::write(all.join("compat.h"), "#define X").unwrap();
        let with_header = of("k1");
        assert_ne!(first, with_header);
        fs::write(all.join("a/a.c"), "4").unwrap();
        assert_ne!(with_header, of("k1"));
    }
}
