//! `repro.yaml`, a [`Reproducer`]: a failure in one file, with everything needed to reproduce it.
//!
//! It may come from anyone. Its size is limited, unknown fields are refused, its paths stay below the
//! directory into which it is unpacked, and its scenario is parsed like any other.

use super::fingerprint::Failure;
use crate::{
    host::whole::write_whole,
    kernel,
    results::Host,
    scenario::{ModuleRef, Scenario, ScenarioError, is_name},
    words::{called, stays_inside},
    yaml::{self, within_budget},
};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

/// The version of `repro.yaml`. Raised when a reader of the old format would misread the new one.
pub const SCHEMA: u32 = 2;

/// The maximum size of the file, in bytes.
const FILE_MAX: u64 = 4 << 20;

/// The maximum number of bytes of inlined files in total, and of files.
pub const INLINE_MAX: usize = 1 << 20;
const FILES_MAX: usize = 2000;

/// The field for the files.
const FILES: &str = "files";

/// The maximum length of a path in it, in bytes.
const PATH_MAX: usize = 300;

/// The top directory for those that `module: source:` names.
pub(crate) const MODULES: &str = "modules";

/// The top directory for those that `workload: source:` names.
pub(crate) const WORKLOADS: &str = "workloads";

/// The permitted top directories of contained files: as in a checkout, and for the sources of a
/// scenario's own modules and workloads.
const TOPS: [&str; 4] = ["guest", "kernels", MODULES, WORKLOADS];

/// A failure, and how to reproduce it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reproducer {
    /// [`SCHEMA`] of the lab that wrote it.
    pub schema: u32,
    /// The version of that lab.
    pub lab: String,
    /// The scenario's name.
    pub name: String,
    /// How it failed.
    pub verdict: Failure,
    /// The scenario's text, with one cell of a matrix expanded.
    pub scenario: String,
    /// The QEMU machine it failed in.
    pub qemu: QemuUsed,
    /// The host that QEMU ran on.
    pub host: Host,
    /// The seed of the order in which the run started its scenarios, if they were shuffled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shuffle: Option<u64>,
    /// The number of the repeat, if the scenario ran several times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u32>,
    /// The kernel it failed on.
    pub kernel: KernelUsed,
    /// The files of the scenario and the kernel, by path in a checkout; those below `modules/` are from
    /// directories that the scenario names.
    pub files: BTreeMap<String, String>,
    /// Files that are not inlined and must be in the checkout.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<ExternalFile>,
}

/// The properties of a kernel that its files do not determine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelUsed {
    /// Its file `kernels/NAME.yaml`, which is among [`Reproducer::files`].
    pub name: String,
    /// The version in its Makefile.
    pub version: String,
    /// The exact source it was built from.
    #[serde(with = "crate::yaml::singleton_map")]
    pub source: Origin,
    /// The SHA-256 of its final `.config`, which also names the compiler.
    pub config_hash: String,
    /// The `.config`, unless it is too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
}

/// The source of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Origin {
    /// This version of the package, or this commit of the repository, that its file names.
    #[serde(rename = "exactly")]
    Pinned(String),
    /// A working tree on someone's computer: its commit, if it had one.
    Tree(String),
}

/// A QEMU machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QemuUsed {
    /// The version that QEMU prints.
    pub version: String,
    /// Its arguments, with bare names for the lab's files.
    pub arguments: Vec<String>,
}

/// A file that is not inlined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExternalFile {
    /// Its path in a checkout.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
    /// Why it is not inlined.
    pub why: String,
}

/// A file that cannot be used as a reproducer.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the reproducer `{}`: {cause}", path.display())]
pub struct ReproError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub cause: String,
}

impl Reproducer {
    /// Returns whether a file is intended to be one: it has a field that no scenario has.
    pub fn is_meant(path: &Path) -> bool {
        read(path).is_ok_and(|text| text.lines().any(|line| line.starts_with("verdict:")))
    }

    /// Reads an untrusted file.
    ///
    /// # Errors
    /// The file is not a reproducer, or names paths outside of its directory.
    pub fn read(path: &Path) -> Result<Reproducer, ReproError> {
        let failed = |cause: String| ReproError { path: path.to_owned(), cause };
        Reproducer::parse(&read(path).map_err(failed)?).map_err(failed)
    }

    fn parse(text: &str) -> Result<Reproducer, String> {
        within_budget(text).map_err(|error| error.to_string())?;
        let reproducer: Reproducer = crate::yaml::from_str(text).map_err(|error| error.to_string())?;
        reproducer.check()?;
        Ok(reproducer)
    }

    /// Writes the file atomically.
    pub fn write(&self, path: &Path) -> Result<()> {
        write_whole(path, self.to_yaml()?)
    }

    /// Returns the contents of the file.
    pub fn to_yaml(&self) -> Result<String> {
        let rest = Reproducer { files: BTreeMap::new(), ..self.clone() };
        let yaml = crate::yaml::to_string(&rest).context("cannot write a reproducer as YAML")?;
        let files = yaml::blocks::field(FILES, &self.files)?;
        // Any other line is indented, or begins a different field.
        let yaml = yaml.replacen(&format!("\n{FILES}: {{}}\n"), &format!("\n{files}"), 1);
        Ok(format!(
            "# A failure of ftrace-lab with everything needed to reproduce it:\n\
             # {} FILE. Read it first: the code it contains is built and run.\n{yaml}",
            called("cargo xtask lab repro")
        ))
    }

    /// Parses its scenario as if it were the file at `path`, which need not exist.
    pub fn scenario(&self, path: &Path) -> Result<Scenario, ScenarioError> {
        Scenario::parse(path, &self.scenario)
    }

    /// Checks what the types do not express.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.schema != SCHEMA {
            return Err(format!(
                "its schema is {}, expected {SCHEMA}: use the version of the lab that wrote it",
                self.schema
            ));
        }
        if !is_name(&self.name) {
            return Err("its `name` is not a scenario name".into());
        }
        if self.verdict.status.is_good() {
            return Err(format!("its verdict is `{}`, expected a failure", self.verdict.status));
        }
        kernel::check_name(&self.kernel.name).map_err(|error| error.to_string())?;
        let paths = || self.files.keys().chain(self.left_out.iter().map(|file| &file.path));
        if paths().count() > FILES_MAX {
            return Err(format!("{} files, expected at most {FILES_MAX}", paths().count()));
        }
        if let Some(path) = paths().find(|path| !is_inside(path)) {
            let tops = TOPS.join("/`, `");
            return Err(format!(
                "`{}` is not permitted, expected a path below `{tops}/`",
                path.escape_debug()
            ));
        }
        let scenario = self.scenario(Path::new("scenario.yaml")).map_err(|error| error.to_string())?;
        if scenario.matrix.is_some() {
            return Err("its scenario has a `matrix`, expected a single cell of it".into());
        }
        for wanted in scenario.modules() {
            if let ModuleRef::Source { directory: path, .. } = wanted
                && !path.to_str().is_some_and(|path| is_inside(path) && path.starts_with(MODULES))
            {
                let path = path.display().to_string();
                let path = path.escape_debug();
                return Err(format!("its scenario builds `{path}`, expected a directory below `{MODULES}/`"));
            }
        }
        let top = format!("{WORKLOADS}/");
        let own = scenario.own_workloads();
        let is_ours = |path: &str| is_inside(path) && path.starts_with(&top);
        if let Some(source) = own.values().find(|source| !source.path().to_str().is_some_and(is_ours)) {
            let path = source.path().display().to_string();
            let path = path.escape_debug();
            return Err(format!("its scenario builds `{path}`, expected sources below `{top}`"));
        }
        Ok(())
    }
}

/// Reads a text file of at most the size of a reproducer.
fn read(path: &Path) -> Result<String, String> {
    // Checked before opening it: opening a FIFO would wait for its writer.
    let metadata = fs::metadata(path).map_err(|error| format!("cannot open it: {error}"))?;
    if !metadata.is_file() {
        return Err("it is not a regular file".into());
    }
    let file = File::open(path).map_err(|error| format!("cannot open it: {error}"))?;
    let mut bytes = Vec::new();
    file.take(FILE_MAX + 1).read_to_end(&mut bytes).map_err(|error| format!("cannot read it: {error}"))?;
    if bytes.len() as u64 > FILE_MAX {
        return Err(format!("it has {} bytes, expected at most {} MiB", metadata.len(), FILE_MAX >> 20));
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8".into())
}

/// Returns whether a path stays below the directory into which it is unpacked, in one of [`TOPS`].
fn is_inside(path: &str) -> bool {
    let plain = |part: &str| !part.is_empty() && part != "." && !part.chars().any(char::is_control);
    path.len() <= PATH_MAX
        && path.split('/').all(plain)
        && path.split('/').count() > 1
        && TOPS.iter().any(|top| path.split('/').next() == Some(top))
        && stays_inside(path)
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
