//! Modules for one kernel: `guest/modules/NAME/`, a Kbuild and its C files, or any directory like it,
//! built against that kernel; or one of the kernel's own modules.
//!
//! A copy of the sources in the cache is built, keyed by the sources and the kernel, so that the sources
//! are not written to and an unchanged module is not rebuilt. All modules can include the headers
//! `guest/modules/*.h` as `../NAME.h`.

mod found;
mod hints;
pub(crate) mod sources;

pub(crate) use found::{FoundModule, find_module};
pub use found::{is_kernel_tree, source_name};

use super::{STRIP_DEBUG, strip};
use crate::{
    cache::{Key, KeyBuilder},
    context::Lab,
    host::{
        beneath::{open_beneath, read_beneath},
        interrupt::Interrupted,
        process::{Tool, tail},
    },
    kernel::{Kernel, complaints, module_name, modules_in, unpack_module},
    scenario::{ModuleRef, Scenario},
    words::nearest_is,
};
use anyhow::{Context, Result, anyhow, bail};
use fs_err as fs;
use sources::Files;
use std::{
    collections::BTreeMap,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The directory of the sources in debug information, warnings of the kernel, and messages.
const LABEL: &str = "guest/modules";

/// The directory of the sources that were built, in an entry of the cache.
const SOURCES: &str = "source";

/// The maximum size of the list of a directory's modules.
const ORDER_LIMIT_BYTES: u64 = 1 << 20;

/// The maximum number of lines of a failed command's output to show.
const LINES_MAX: usize = 12;

/// A module that was built for one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its name in the kernel: with `_`, never `-`.
    pub name: String,
    /// The file to load: a `.ko` without debug information.
    pub file: PathBuf,
    /// The same with DWARF.
    pub debug: PathBuf,
    /// The directory of its sources, see [`source_name`]; `None` for one of the kernel's own.
    pub sources: Option<String>,
}

/// The modules of all kernels.
#[derive(Clone, Debug)]
pub struct Modules {
    lab: Lab,
    sources: PathBuf,
}

impl Modules {
    /// Uses the modules in the directory `sources`, `guest/modules`.
    pub fn new(lab: &Lab, sources: PathBuf) -> Modules {
        Modules { lab: lab.clone(), sources }
    }

    /// Returns all modules that a scenario loads, by the way it names them, built if necessary.
    pub fn of(&self, scenario: &Scenario, kernel: &Kernel) -> Result<BTreeMap<ModuleRef, Module>> {
        let built = scenario.modules().into_iter().map(|wanted| {
            let module = match &wanted {
                ModuleRef::Named(name) => self.find(kernel, name),
                ModuleRef::Sample(path) => self.sample(kernel, path),
                ModuleRef::Source { directory, name, build } => {
                    let source = scenario.directory.join(directory);
                    self.foreign(kernel, &source, name.as_deref(), build.as_deref())
                }
            };
            Ok((wanted, module?))
        });
        built.collect()
    }

    /// Returns the module `name` for this kernel: the lab's own of that name, else the kernel's.
    pub fn find(&self, kernel: &Kernel, name: &str) -> Result<Module> {
        let source = self.sources.join(name);
        if source.join("Kbuild").is_file() {
            return self.build(kernel, name, &source);
        }
        match kernel.find_module(name)? {
            Some(file) => self.strip(kernel, name, &file),
            None => Err(anyhow!("there is no module `{name}`{}", self.hint(kernel, name))),
        }
    }

    /// Returns the names of the lab's own modules, sorted.
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
        nearest_is(name, &known)
    }

    /// Returns the kernel's sample at `path`, without `.ko`, below `samples/`.
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
        bail!("{} was built without a sample `{path}`{}", kernel.name, nearest_is(path, &known))
    }

    fn build(&self, kernel: &Kernel, name: &str, source: &Path) -> Result<Module> {
        let files = sources::own(&self.sources, source)?;
        let build = Build {
            kernel,
            source,
            within: name,
            label: LABEL,
            strict: true,
            name: Some(name),
            command: None,
        };
        self.built(&build, name, &files)
    }

    /// Builds the directory `source`, by `command` instead of kbuild if there is one. Compiler warnings are
    /// ignored.
    fn foreign(
        &self,
        kernel: &Kernel,
        source: &Path,
        name: Option<&str>,
        command: Option<&str>,
    ) -> Result<Module> {
        let files = sources::foreign(source)?;
        let full = fs::canonicalize(source)?;
        let label = label_of(&full);
        let build = Build { kernel, source, within: "", label: &label, strict: false, name, command };
        self.built(&build, name.unwrap_or("module"), &files)
    }

    fn built(&self, build: &Build<'_>, called: &str, files: &Files) -> Result<Module> {
        let kernel = build.kernel;
        let key = key(&kernel.modules_key, called, build.label, build.command, files);
        let waiting = || {
            self.lab
                .progress
                .line(format!("waiting for another process that is building the module {called}"));
        };
        let entry = self.lab.cache.entry("modules", &key, waiting, |into| {
            let what = format!("building the module {called} for {}", kernel.name);
            let _task = self.lab.progress.task(what, None);
            let copy = into.join("build");
            sources::write(files, &copy)?;
            build.make(&copy, &into.join("make.log"))?;
            let made = build.made(&copy)?;
            let name = made.file_stem().unwrap_or_default().to_string_lossy();
            let debug = into.join(format!("{name}.ko.debug"));
            fs::rename(&made, &debug)?;
            fs::remove_dir_all(&copy)?;
            // What was built, for coverage; make may have changed the copy.
            sources::write(files, &into.join(SOURCES))?;
            strip(&STRIP_DEBUG, &debug, &into.join(format!("{name}.ko")))
        })?;
        let file = one_module(&entry)?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy().replace('-', "_");
        let debug = file.with_extension("ko.debug");
        let sources = Some(source_name(&self.lab.root, &build.source.to_string_lossy()));
        Ok(Module { name, file, debug, sources })
    }

    /// Strips one of the kernel's own modules: debug information makes up most of the file, and an
    /// emulated guest would spend time reading it.
    fn strip(&self, kernel: &Kernel, name: &str, file: &Path) -> Result<Module> {
        let data = fs::metadata(file)?;
        let key = KeyBuilder::default()
            .input("kernel", &kernel.modules_key)
            .input("module", file.as_os_str().as_encoded_bytes())
            .input("size", data.len().to_le_bytes())
            .input("mtime", data.mtime().to_le_bytes())
            .finish(name);
        let fill = |into: &Path| {
            let to = into.join(format!("{name}.ko"));
            // A distribution module has no debug information, but a signature, which stripping would remove.
            if kernel.is_distribution() { unpack_module(file, &to) } else { strip(&STRIP_DEBUG, file, &to) }
        };
        let stripped = self.lab.cache.entry("modules", &key, || {}, fill)?.join(format!("{name}.ko"));
        let debug = if kernel.is_distribution() { stripped.clone() } else { file.to_owned() };
        Ok(Module { name: name.replace('-', "_"), file: stripped, debug, sources: None })
    }
}

fn key(kernel: &str, name: &str, label: &str, command: Option<&str>, files: &Files) -> Key {
    let key = KeyBuilder::default().input("kernel", kernel).input("name", name);
    let mut key = key.input("label", label).input("layout", "3");
    if let Some(command) = command {
        key = key.input("command", command);
    }
    for (path, data) in files {
        key = key.input(&path.to_string_lossy(), data);
    }
    key.finish(name)
}

/// The build of a module from a copy of its sources.
struct Build<'a> {
    kernel: &'a Kernel,
    /// The directory of the sources, for messages.
    source: &'a Path,
    /// The module's directory within the copy.
    within: &'a str,
    /// Replaces the copy's path in debug information.
    label: &'a str,
    /// Whether warnings are errors, as for the lab's own modules.
    strict: bool,
    /// The module to use, if the directory builds several.
    name: Option<&'a str>,
    /// The command that builds it instead of kbuild.
    command: Option<&'a str>,
}

impl Build<'_> {
    /// Returns what builds the copy.
    fn tool(&self, copy: &Path, directory: &str) -> Tool {
        // The copy's path differs each time and must not appear in the module.
        let flags = format!("KCFLAGS=-ffile-prefix-map={}={}", copy.display(), self.label);
        match self.command {
            Some(command) => self.kernel.shell(copy, command, &flags),
            None => {
                let make = self.kernel.make_module(copy).arg(format!("M={directory}"));
                make.arg(flags).arg("modules").args(self.strict.then_some("W=1"))
            }
        }
    }

    /// Runs kbuild, or the command, on the copy. `log` is outside of it: the code that is built could replace it.
    fn make(&self, copy: &Path, log: &Path) -> Result<()> {
        let directory = copy.join(self.within);
        let directory = directory.to_string_lossy();
        let directory = directory.trim_end_matches('/');
        let made = self.tool(copy, directory).log(log).run();
        let text = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
        // The compiler reports paths of the copy; show those of the source.
        let text = text.replace(directory, &self.source.to_string_lossy());
        let failed =
            || format!("cannot build the module `{}` for {}", self.source.display(), self.kernel.name);
        if let Err(error) = made {
            let said = complaints(&text);
            let cause = match self.command {
                _ if error.is::<Interrupted>() => return Err(error),
                // What a command of someone else says when it fails may have any form.
                Some(_) if !text.contains(" error: ") => anyhow!("{}", tail(&text, LINES_MAX)),
                _ if said.is_empty() => error,
                _ => anyhow!(said),
            };
            return Err(anyhow!("{cause:#}{}", hints::next_step(self, copy))).with_context(failed);
        }
        let warnings: Vec<&str> = text.lines().filter(|line| line.contains(" warning: ")).take(10).collect();
        if self.strict && !warnings.is_empty() {
            return Err(anyhow!(warnings.join("\n"))).with_context(failed);
        }
        Ok(fs::remove_file(log)?)
    }

    /// Returns the module built from the copy: the requested one, or the only one. The list of modules and
    /// the module are whatever the code that was built wrote.
    fn made(&self, copy: &Path) -> Result<PathBuf> {
        if self.command.is_some() {
            return self.made_by_command(copy);
        }
        let directory = copy.join(self.within);
        let order = read_beneath(&directory, "modules.order", ORDER_LIMIT_BYTES).unwrap_or_default();
        let order = String::from_utf8_lossy(&order);
        let made: Vec<String> = modules_in(&order).collect();
        let names: Vec<&str> = made.iter().filter_map(|file| Path::new(file).file_stem()?.to_str()).collect();
        let source = self.source.display();
        let index = match (self.name, names.as_slice()) {
            (Some(name), []) => bail!(
                "`{source}` did not make `{name}.ko`: kbuild found no `obj-m` in its Kbuild or Makefile{}",
                hints::next_step(self, copy)
            ),
            (Some(name), names) => names.iter().position(|made| *made == name).ok_or_else(|| {
                let near = nearest_is(name, names.iter().copied());
                anyhow!(
                    "`{source}` did not make `{name}.ko`{near}; name one that it made: {}",
                    names.join(", ")
                )
            })?,
            (None, [_]) => 0,
            (None, []) => bail!("`{source}` made no module; its Kbuild must have `obj-m := NAME.o`"),
            (None, several) => bail!("`{source}` made {}; select one with `name:`", several.join(", ")),
        };
        // Listed with its full path or, for a build below that of the kernel, with a relative one.
        let file = Path::new(&made[index]);
        let file = file.strip_prefix(&directory).unwrap_or(file);
        open_beneath(&directory, file).with_context(|| format!("`{source}` made an unusable module"))?;
        Ok(directory.join(file))
    }

    /// Returns the module that the command built, wherever it is in the copy.
    fn made_by_command(&self, copy: &Path) -> Result<PathBuf> {
        let (source, command) = (self.source.display(), self.command.unwrap_or_default());
        let is_module = |path: &Path| path.extension().is_some_and(|extension| extension == "ko");
        let made = sources::made(copy, &is_module)?;
        let is_wanted = |file: &&PathBuf| self.name.is_none_or(|name| module_name(file) == name);
        match made.iter().filter(is_wanted).collect::<Vec<_>>().as_slice() {
            [file] => Ok((*file).clone()),
            [] => bail!(
                "`{command}` made no `{}.ko` in `{source}`{}",
                self.name.unwrap_or("*"),
                hints::next_step(self, copy)
            ),
            several => {
                let below = several.iter().filter_map(|file| file.strip_prefix(copy).ok());
                let below: Vec<_> = below.map(|file| file.display().to_string()).collect();
                let next = match self.name {
                    Some(_) => "only one may have this name: use a command that makes one of them",
                    None => "select one with `name:`",
                };
                bail!("`{command}` made several modules in `{source}`: {}; {next}", below.join(", "))
            }
        }
    }
}

/// Returns the name of a directory as a path of debug information: kbuild splits flags at spaces, and a shell reads
/// them.
fn label_of(directory: &Path) -> String {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    name.chars().map(|c| if c.is_alphanumeric() || "._+-".contains(c) { c } else { '_' }).collect()
}

/// Returns the only `.ko` of an entry in the cache.
fn one_module(entry: &Path) -> Result<PathBuf> {
    let files = fs::read_dir(entry)?;
    let mut paths = files.flatten().map(|file| file.path());
    let module = paths.find(|path| path.extension().is_some_and(|extension| extension == "ko"));
    module.with_context(|| format!("corrupt cache entry: remove `{}` and try again", entry.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_keyed_by_kernel_name_label_and_sources() {
        let files = |text: &str| {
            Files::from([("Kbuild".into(), b"obj-m := a.o".into()), ("a.c".into(), text.into())])
        };
        let first = key("k1", "a", "src", None, &files("1"));
        assert_eq!(first, key("k1", "a", "src", None, &files("1")));
        assert_ne!(first, key("k2", "a", "src", None, &files("1")));
        assert_ne!(first, key("k1", "b", "src", None, &files("1")));
        assert_ne!(first, key("k1", "a", "other", None, &files("1")));
        assert_ne!(first, key("k1", "a", "src", None, &files("2")));
    }
}
