//! Writes the [`Reproducer`] of a failed result next to its other files, during the run.
//!
//! Reads the files of the scenario and the kernel again from where the run read them. Files that are too
//! large or not text are listed with their hash instead.

use super::{
    ExternalFile, FILE, INLINE_MAX, KernelUsed, MODULES, Origin, QemuUsed, Reproducer, SCHEMA, WORKLOADS,
    fingerprint::Failure, sources,
};
use crate::{
    guest::module_sources,
    kernel::{self, Kernel},
    machine::{Accelerator, machine_with, qemu},
    results::{Host, Qemu, ScenarioResult},
    scenario::{self, ModuleRef, ProgramSource, Scenario, ScenarioFile, means_the_same},
    words::hex,
};
use anyhow::{Result, ensure};
use fs_err as fs;
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// The maximum size of an inlined `.config`, in bytes. One with all options has 300 kB.
const CONFIG_MAX: usize = 512 << 10;

/// The facts about a run that its results lack.
#[derive(Clone, Copy, Debug)]
pub struct RunContext<'a> {
    /// The checkout, or the directory used in its place.
    pub root: &'a Path,
    /// Whether the kernel was built from a tree that is not its own source.
    pub tree: bool,
    /// The QEMU of the run.
    pub qemu: &'a Qemu,
    /// The host of the run.
    pub host: &'a Host,
    /// The seed of the order of its scenarios.
    pub shuffle: Option<u64>,
    /// The kernel.
    pub kernel: &'a Kernel,
    /// The scenario's file.
    pub found: &'a ScenarioFile,
    /// The scenario.
    pub scenario: &'a Scenario,
}

/// Writes the reproducer of a failure into its directory `place`. Returns its file name, or `None` if the
/// result is not a failure.
///
/// # Errors
/// A file cannot be read, or has changed since the run.
pub fn leave(about: &RunContext<'_>, result: &ScenarioResult, place: &Path) -> Result<Option<String>> {
    let RunContext { kernel, found, scenario, .. } = *about;
    if result.status.is_good() {
        return Ok(None);
    }
    let text = scenario::stand_alone(found)?;
    let again = Scenario::parse(&found.path, &text)?;
    ensure!(means_the_same(scenario, &again), "`{}` was changed while it ran", found.path.display());
    let mut sources = Sources::default();
    let text = sources.of_scenario(about.root, scenario, &text)?;
    sources.of_kernel(about.root, kernel)?;
    let Some(verdict) = Failure::of(result, &text) else { return Ok(None) };
    let (files, left_out) = sources.inlined();
    let reproducer = Reproducer {
        schema: SCHEMA,
        lab: env!("CARGO_PKG_VERSION").to_owned(),
        name: found.name.clone(),
        verdict,
        kernel: kernel_used(kernel, about.tree)?,
        qemu: QemuUsed { version: about.qemu.version.clone(), arguments: arguments(kernel, scenario) },
        host: about.host.clone(),
        shuffle: about.shuffle,
        repeat: result.repeat,
        scenario: text,
        files,
        left_out,
    };
    // Only write a reproducer that can be read.
    reproducer.check().map_err(anyhow::Error::msg)?;
    reproducer.write(&place.join(FILE))?;
    Ok(Some(FILE.to_owned()))
}

fn kernel_used(kernel: &Kernel, tree: bool) -> Result<KernelUsed> {
    let of_tree = tree || matches!(kernel.spec.source, kernel::SourceSpec::Tree(_));
    let source = match of_tree {
        true => Origin::Tree(kernel.source_version.clone()),
        false => Origin::Pinned(kernel::exact_version(kernel.cache(), kernel)?),
    };
    Ok(KernelUsed {
        name: kernel.name.clone(),
        version: kernel.version.to_string(),
        source,
        config_hash: kernel.config_hash.clone(),
        config: Some(kernel.config_text()?).filter(|text| text.len() <= CONFIG_MAX),
    })
}

/// Returns readable QEMU arguments for a scenario without a userland.
fn arguments(kernel: &Kernel, scenario: &Scenario) -> Vec<String> {
    let mut spec = machine_with(kernel, Path::new("initramfs")).of_scenario(scenario);
    spec.image = "Image".into();
    // The socket numbers differ from machine to machine.
    let sockets = qemu::Sockets { console: 3, agent: 4, monitor: 5 };
    qemu::arguments(&spec, Accelerator::of_host(), qemu::Memory::Anonymous, sockets)
}

/// Files by path in a reproducer.
#[derive(Default)]
struct Sources {
    files: BTreeMap<String, Vec<u8>>,
}

impl Sources {
    /// Adds all files of the scenario. Returns its text, with the sources of its own modules and workloads
    /// renamed to those in the reproducer.
    fn of_scenario(&mut self, root: &Path, scenario: &Scenario, text: &str) -> Result<String> {
        let guest = root.join("guest");
        let mut renamed = BTreeMap::new();
        for wanted in scenario.modules() {
            match &wanted {
                ModuleRef::Named(name) => {
                    let source = guest.join("modules").join(name);
                    // Otherwise it is a module of the kernel.
                    if source.join("Kbuild").is_file() {
                        self.add("guest/modules", module_sources::own(&guest.join("modules"), &source)?);
                    }
                }
                ModuleRef::Source { directory: path, .. } => {
                    let files = module_sources::foreign(&scenario.directory.join(path))?;
                    let name = self.new_name(&scenario.directory.join(path));
                    self.add(&name, files);
                    renamed.insert(("module", path.clone()), name);
                }
                ModuleRef::Sample(_) => {}
            }
        }
        for (name, source) in scenario.own_workloads() {
            let directory = format!("{WORKLOADS}/{name}");
            self.add(&directory, module_sources::program(source, &scenario.directory)?);
            let place = match source {
                ProgramSource::File(_) => format!("{directory}/{name}.c"),
                ProgramSource::Made { .. } => directory,
            };
            renamed.insert(("workload", source.path().to_owned()), place);
        }
        for name in sources::guest_files(&guest, scenario, text)? {
            let path = guest.join(&name);
            let data = fs::read(&path)?;
            self.files.insert(format!("guest/{name}"), data);
        }
        if renamed.is_empty() { Ok(text.to_owned()) } else { sources::with_sources(text, &renamed) }
    }

    /// Adds the kernel's file and the files it names.
    fn of_kernel(&mut self, root: &Path, kernel: &Kernel) -> Result<()> {
        for name in kernel.spec.files() {
            let path = root.join("kernels").join(&name);
            let data = fs::read(&path)?;
            self.files.insert(format!("kernels/{name}"), data);
        }
        Ok(())
    }

    fn add(&mut self, directory: &str, files: module_sources::Files) {
        let named = |(path, data): (PathBuf, _)| (format!("{directory}/{}", path.to_string_lossy()), data);
        self.files.extend(files.into_iter().map(named));
    }

    /// Returns a free name for a directory of sources, similar to its own.
    fn new_name(&self, source: &Path) -> String {
        let own = source.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
        let own = own.filter(|name| scenario::is_name(name)).unwrap_or_else(|| "module".into());
        let is_taken = |name: &str| self.files.keys().any(|path| path.starts_with(&format!("{name}/")));
        let names = (1..).map(|number| match number {
            1 => format!("{MODULES}/{own}"),
            number => format!("{MODULES}/{own}-{number}"),
        });
        names.into_iter().find(|name| !is_taken(name)).unwrap_or_default()
    }

    /// Splits the files into those to inline and those only listed.
    fn inlined(self) -> (BTreeMap<String, String>, Vec<ExternalFile>) {
        let (mut files, mut left_out, mut room) = (BTreeMap::new(), Vec::new(), INLINE_MAX);
        for (path, data) in self.files {
            let named = |why: &str, data: &[u8]| ExternalFile {
                path: path.clone(),
                bytes: data.len() as u64,
                sha256: hex(&Sha256::digest(data)),
                why: why.to_owned(),
            };
            match String::from_utf8(data) {
                Ok(text) if text.len() <= room => {
                    room -= text.len();
                    files.insert(path, text);
                }
                Ok(text) => left_out.push(named("all files exceed 1 MiB in total", text.as_bytes())),
                Err(error) => left_out.push(named("it is not UTF-8", error.as_bytes())),
            }
        }
        (files, left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_is_named_with_its_hash() {
        let files = [("a", vec![b'x'; INLINE_MAX - 5]), ("b", b"12345".to_vec()), ("c", b"6".to_vec())];
        let binary = [("d", vec![0xff])];
        let files = files.into_iter().chain(binary).map(|(name, data)| (name.to_owned(), data)).collect();
        let (inlined, left_out) = Sources { files }.inlined();
        assert_eq!(inlined.keys().collect::<Vec<_>>(), ["a", "b"]);
        let sixes = "e7f6c011776e8db7cd330b54174fd76f7d0216b612387a5ffcfb81e6f0919683";
        assert_eq!((left_out[0].path.as_str(), left_out[0].sha256.as_str()), ("c", sixes));
        assert_eq!((left_out[1].bytes, left_out[1].why.as_str()), (1, "it is not UTF-8"));
    }
}
