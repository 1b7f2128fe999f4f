//! Kernel modules for one kernel: `guest/modules/NAME/`, a Kbuild and its C files, or any directory
//! like it, built against that kernel; or one of the kernel's own.
//!
//! What is built is a copy in the cache, keyed by the sources and the kernel, so the sources are not
//! written to, and unchanged means no make. Headers beside the directories, `guest/modules/*.h`, are
//! there for all of them as `../NAME.h`.

pub(crate) mod sources;

use super::CROSS_GCC;
use crate::{
    cache::{Cache, Key, KeyBuilder},
    host::process::Tool,
    kernel::{Kernel, complaints, module_name, modules_in, unpack_module},
    progress::Progress,
    scenario::{Scenario, Wanted, nearest},
};
use anyhow::{Context, Result, anyhow, bail};
use sources::Files;
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// How sources are called in debug information, warnings of the kernel, and messages.
const LABEL: &str = "guest/modules";

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

    /// All that a scenario loads, as it names it, built if need be.
    pub fn of(&self, scenario: &Scenario, kernel: &Kernel) -> Result<BTreeMap<Wanted, Module>> {
        let built = scenario.modules().into_iter().map(|wanted| {
            let module = match &wanted {
                Wanted::Named(name) => self.find(kernel, name),
                Wanted::Sample(path) => self.sample(kernel, path),
                Wanted::Source(path, name) => {
                    self.foreign(kernel, &scenario.directory.join(path), name.as_deref())
                }
            };
            Ok((wanted, module?))
        });
        built.collect()
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

    /// The names of all the lab's own, sorted.
    pub fn own(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.sources).into_iter().flatten().flatten();
        let built = entries.filter(|entry| entry.path().join("Kbuild").is_file());
        let mut names: Vec<String> =
            built.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn hint(&self, kernel: &Kernel, name: &str) -> String {
        let own = self.own().into_iter();
        let kernels = kernel.modules().unwrap_or_default();
        let kernels = kernels.iter().map(|path| module_name(path));
        let known: Vec<String> = own.chain(kernels).collect();
        let near = nearest(name, known.iter().map(String::as_str));
        near.map(|near| format!("; the nearest is `{near}`")).unwrap_or_default()
    }

    /// The kernel's own sample at `path` below `samples/`, without `.ko`.
    fn sample(&self, kernel: &Kernel, path: &str) -> Result<Module> {
        let samples = kernel.directory.join("samples");
        let modules = kernel.modules()?;
        let known =
            || modules.iter().filter_map(|file| Some(file.strip_prefix(&samples).ok()?.with_extension("")));
        if known().any(|known| known == Path::new(path)) {
            let name = path.rsplit('/').next().unwrap_or(path);
            return self.strip(kernel, name, &samples.join(format!("{path}.ko")));
        }
        let known: Vec<String> = known().map(|known| known.display().to_string()).collect();
        let near = nearest(path, known.iter().map(String::as_str));
        let near = near.map(|near| format!("; the nearest is `{near}`")).unwrap_or_default();
        bail!("{} was built without a sample `{path}`{near}", kernel.name)
    }

    fn build(&self, kernel: &Kernel, name: &str, source: &Path) -> Result<Module> {
        let files = sources::own(&self.sources, source)?;
        let build = Build { kernel, source, within: name, label: LABEL, strict: true, name: Some(name) };
        self.built(&build, name, &files)
    }

    /// What the directory `source` makes. Its warnings are its own business.
    fn foreign(&self, kernel: &Kernel, source: &Path, name: Option<&str>) -> Result<Module> {
        let files = sources::foreign(source)?;
        let full = source.canonicalize().with_context(|| format!("cannot find `{}`", source.display()))?;
        let label = full.file_name().unwrap_or_default().to_string_lossy();
        let build = Build { kernel, source, within: "", label: &label, strict: false, name };
        self.built(&build, name.unwrap_or("module"), &files)
    }

    fn built(&self, build: &Build<'_>, called: &str, files: &Files) -> Result<Module> {
        let kernel = build.kernel;
        let key = key(&kernel.key, called, files);
        let waiting = || self.progress.line(format!("another lab is building the module {called}; waiting"));
        let entry = self.cache.entry("modules", &key, waiting, |into| {
            let what = format!("building the module {called} for {}", kernel.name);
            let _task = self.progress.task(what, None);
            let copy = into.join("build");
            sources::write(files, &copy)?;
            build.make(&copy)?;
            let made = build.made(&copy.join(build.within))?;
            let name = made.file_stem().unwrap_or_default().to_string_lossy();
            let debug = into.join(format!("{name}.ko.debug"));
            fs::rename(&made, &debug).with_context(|| format!("cannot move `{}`", made.display()))?;
            fs::remove_dir_all(&copy).with_context(|| format!("cannot remove `{}`", copy.display()))?;
            strip(&debug, &into.join(format!("{name}.ko")))
        })?;
        let file = one_module(&entry)?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy().replace('-', "_");
        let debug = file.with_extension("ko.debug");
        Ok(Module { name, file, debug })
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
        let fill = |into: &Path| {
            let to = into.join(format!("{name}.ko"));
            // One that was shipped has none, but a signature, which would go with it.
            if kernel.is_shipped() { unpack_module(file, &to) } else { strip(file, &to) }
        };
        let stripped = self.cache.entry("modules", &key, || {}, fill)?.join(format!("{name}.ko"));
        let debug = if kernel.is_shipped() { stripped.clone() } else { file.to_owned() };
        Ok(Module { name: name.replace('-', "_"), file: stripped, debug })
    }
}

fn key(kernel: &str, name: &str, files: &Files) -> Key {
    let mut key = KeyBuilder::default().input("kernel", kernel).input("name", name).input("layout", "2");
    for (path, data) in files {
        key = key.input(&path.to_string_lossy(), data);
    }
    key.finish(name)
}

/// A module that kbuild makes from a copy of its sources.
struct Build<'a> {
    kernel: &'a Kernel,
    /// Where the sources are, for messages.
    source: &'a Path,
    /// The module's directory within the copy.
    within: &'a str,
    /// What debug information has in place of the copy's path.
    label: &'a str,
    /// Whether warnings are errors, as they are for the lab's own.
    strict: bool,
    /// Which of several modules it is.
    name: Option<&'a str>,
}

impl Build<'_> {
    /// Runs kbuild on the copy.
    fn make(&self, copy: &Path) -> Result<()> {
        let log = copy.join("make.log");
        let directory = copy.join(self.within);
        let directory = directory.to_string_lossy();
        let directory = directory.trim_end_matches('/');
        let mut make = self
            .kernel
            .make()
            .arg(format!("M={directory}"))
            // The copy's path is nobody's business, and would be another one each time.
            .arg(format!("KCFLAGS=-ffile-prefix-map={}={}", copy.display(), self.label))
            .arg("modules")
            // It would rewrite the paths that are mapped above, and has nothing to save here.
            .env("CCACHE_DISABLE", "1")
            .log(&log);
        if self.strict {
            make = make.arg("W=1");
        }
        let made = make.run();
        let text = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
        // The compiler speaks of the copy; a person wants to open the source.
        let text = text.replace(directory, &self.source.to_string_lossy());
        let failed =
            || format!("cannot build the module `{}` for {}", self.source.display(), self.kernel.name);
        if let Err(error) = made {
            let said = complaints(&text);
            return Err(if said.is_empty() { error } else { anyhow!(said) }).with_context(failed);
        }
        let warnings: Vec<&str> = text.lines().filter(|line| line.contains(" warning: ")).take(10).collect();
        if self.strict && !warnings.is_empty() {
            return Err(anyhow!(warnings.join("\n"))).with_context(failed);
        }
        Ok(())
    }

    /// The module that was made in `directory`: the one that was asked for, or the only one.
    fn made(&self, directory: &Path) -> Result<PathBuf> {
        let path = directory.join("modules.order");
        let order = fs::read_to_string(&path).unwrap_or_default();
        let made: Vec<String> = modules_in(&order).collect();
        let names: Vec<&str> = made.iter().filter_map(|file| Path::new(file).file_stem()?.to_str()).collect();
        let source = self.source.display();
        let index = match (self.name, names.as_slice()) {
            (Some(name), names) => names.iter().position(|made| *made == name).ok_or_else(|| {
                let near =
                    nearest(name, names.iter().copied()).map(|near| format!("; the nearest is `{near}`"));
                anyhow!("`{source}` did not make `{name}.ko`{}", near.unwrap_or_default())
            })?,
            (None, [_]) => 0,
            (None, []) => bail!("`{source}` made no module; its Kbuild has to have `obj-m := NAME.o`"),
            (None, several) => bail!("`{source}` made {}; `name:` says which", several.join(", ")),
        };
        // Listed by the whole path or, where the build is below that of the kernel, by a part of it.
        let file = Path::new(&made[index]);
        Ok(directory.join(file.strip_prefix(directory).unwrap_or(file)))
    }
}

/// The one `.ko` of an entry in the cache.
fn one_module(entry: &Path) -> Result<PathBuf> {
    let files = fs::read_dir(entry).with_context(|| format!("cannot list `{}`", entry.display()))?;
    let mut paths = files.flatten().map(|file| file.path());
    let module = paths.find(|path| path.extension().is_some_and(|extension| extension == "ko"));
    module.with_context(|| format!("`{}` in the cache is damaged; remove it", entry.display()))
}

pub(super) fn strip(from: &Path, to: &Path) -> Result<()> {
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
    fn a_module_is_keyed_by_kernel_name_and_sources() {
        let files = |text: &str| {
            Files::from([("Kbuild".into(), b"obj-m := a.o".into()), ("a.c".into(), text.into())])
        };
        let first = key("k1", "a", &files("1"));
        assert_eq!(first, key("k1", "a", &files("1")));
        assert_ne!(first, key("k2", "a", &files("1")));
        assert_ne!(first, key("k1", "b", &files("1")));
        assert_ne!(first, key("k1", "a", &files("2")));
    }
}
