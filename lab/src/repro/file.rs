//! `repro.yaml` ↔ [`Reproducer`]: a failure in one file, with all that is needed to see it again.
//!
//! It may come from anyone. It is read up to a size, unknown fields are refused, the paths in it stay
//! below the directory that they are put in, and its scenario is parsed as any other.

use super::{fingerprint::Failure, yaml};
use crate::{
    kernel, report,
    scenario::{Scenario, ScenarioError, Wanted, is_name, within_budget},
};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Read,
    path::{Component, Path, PathBuf},
};

/// The version of `repro.yaml`. Raised when a reader of the old form would misread the new one.
pub const SCHEMA: u32 = 1;

/// The largest file that is read, in bytes.
const FILE_MAX: u64 = 4 << 20;

/// The bytes of files that are inlined, and how many there may be.
pub const INLINE_MAX: usize = 1 << 20;
const FILES_MAX: usize = 2000;

/// The field that has the files.
const FILES: &str = "files";

/// The longest path in it, in bytes.
const PATH_MAX: usize = 300;

/// Where the directories are that `module: source:` names.
pub(super) const MODULES: &str = "modules";

/// The top directories of what a file brings: as in a checkout, and the sources of a scenario's own
/// modules.
const TOPS: [&str; 3] = ["guest", "kernels", MODULES];

/// A failure, and how to see it again.
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
    /// The scenario: of a matrix, one cell.
    pub scenario: String,
    /// The machine it failed in.
    pub qemu: QemuUsed,
    /// What that ran on.
    pub host: report::Host,
    /// The seed of the order in which the run started its scenarios, if they were shuffled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shuffle: Option<u64>,
    /// Which of several runs of the scenario it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u32>,
    /// The kernel it failed on.
    pub kernel: KernelUsed,
    /// What scenario and kernel are made of, by its path in a checkout; below `modules/` are the
    /// directories that the scenario itself names.
    pub files: BTreeMap<String, String>,
    /// What is not inlined and has to be in the checkout.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

/// A kernel, as far as its files do not say it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelUsed {
    /// Its file `kernels/NAME.yaml`, which is among [`Reproducer::files`].
    pub name: String,
    /// What its Makefile says.
    pub version: String,
    /// What exactly it was built from.
    #[serde(with = "serde_yaml::with::singleton_map")]
    pub source: Origin,
    /// SHA-256 of its final `.config`, which names the compiler, too.
    pub config_hash: String,
    /// That `.config`, unless it is too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
}

/// What a kernel was built from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Origin {
    /// Of what its file names, this version of the package or this commit.
    Exactly(String),
    /// A working tree on someone's machine: its commit, as far as it had one.
    Tree(String),
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QemuUsed {
    /// As it prints it itself.
    pub version: String,
    /// Its arguments, with bare names for files of the lab's.
    pub arguments: Vec<String>,
}

/// A file that is not inlined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftOut {
    /// Its path in a checkout.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
    /// Why it is not inlined.
    pub why: String,
}

/// A file that is no reproducer.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the reproducer `{}`: {cause}", path.display())]
pub struct ReproError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub cause: String,
}

impl Reproducer {
    /// Whether a file means to be one, by a field that no scenario has.
    pub fn is_meant(path: &Path) -> bool {
        read(path).is_ok_and(|text| text.lines().any(|line| line.starts_with("verdict:")))
    }

    /// Reads a file, whoever it is from.
    ///
    /// # Errors
    /// What is no reproducer, or would reach out of its directory.
    pub fn read(path: &Path) -> Result<Reproducer, ReproError> {
        let failed = |cause: String| ReproError { path: path.to_owned(), cause };
        Reproducer::parse(&read(path).map_err(failed)?).map_err(failed)
    }

    fn parse(text: &str) -> Result<Reproducer, String> {
        within_budget(text).map_err(|error| error.to_string())?;
        let reproducer: Reproducer = serde_yaml::from_str(text).map_err(|error| error.to_string())?;
        reproducer.check()?;
        Ok(reproducer)
    }

    /// Writes it, all at once.
    pub fn write(&self, path: &Path) -> Result<()> {
        report::write_whole(path, self.to_yaml()?.as_bytes())
    }

    /// What is written.
    pub fn to_yaml(&self) -> Result<String> {
        let rest = Reproducer { files: BTreeMap::new(), ..self.clone() };
        let yaml = serde_yaml::to_string(&rest).context("cannot write a reproducer as YAML")?;
        let files = yaml::field(FILES, &self.files)?;
        // Whatever else begins a line is indented, or another field.
        let yaml = yaml.replacen(&format!("\n{FILES}: {{}}\n"), &format!("\n{files}"), 1);
        Ok(format!(
            "# A failure of ftrace-lab with all that is needed to see it again:\n\
             # cargo xtask lab repro FILE. Look into it first: what it brings is built and run.\n{yaml}"
        ))
    }

    /// Its scenario, as the file at `path`, which need not be there.
    pub fn scenario(&self, path: &Path) -> Result<Scenario, ScenarioError> {
        Scenario::parse(path, &self.scenario)
    }

    /// What types alone do not say.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.schema != SCHEMA {
            return Err(format!("its schema is {}, expected {SCHEMA}: it is of another lab", self.schema));
        }
        if !is_name(&self.name) {
            return Err("its `name` is no name of a scenario".into());
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
                "`{}` leads elsewhere, expected a path below `{tops}/`",
                path.escape_debug()
            ));
        }
        let scenario = self.scenario(Path::new("scenario.yaml")).map_err(|error| error.to_string())?;
        if scenario.matrix.is_some() {
            return Err("its scenario has a `matrix`, expected one cell of it".into());
        }
        for wanted in scenario.modules() {
            if let Wanted::Source(path, _) = wanted
                && !path.to_str().is_some_and(|path| is_inside(path) && path.starts_with(MODULES))
            {
                let path = path.display().to_string();
                let path = path.escape_debug();
                return Err(format!("its scenario builds `{path}`, expected a directory below `{MODULES}/`"));
            }
        }
        Ok(())
    }
}

/// Reads a text file up to the size that a reproducer may have.
fn read(path: &Path) -> Result<String, String> {
    // Asked before it is opened: opening a FIFO would wait for its writer.
    let metadata = fs::metadata(path).map_err(|error| format!("cannot open it: {error}"))?;
    if !metadata.is_file() {
        return Err("it is no regular file".into());
    }
    let file = File::open(path).map_err(|error| format!("cannot open it: {error}"))?;
    let mut bytes = Vec::new();
    file.take(FILE_MAX + 1).read_to_end(&mut bytes).map_err(|error| format!("cannot read it: {error}"))?;
    if bytes.len() as u64 > FILE_MAX {
        return Err(format!("it has {} bytes, expected at most {} MiB", metadata.len(), FILE_MAX >> 20));
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8".into())
}

/// Whether a path stays below the directory that it is put in, in one of those that are known.
fn is_inside(path: &str) -> bool {
    let plain = |part: &str| !part.is_empty() && part != "." && !part.chars().any(char::is_control);
    let mut parts = Path::new(path).components();
    path.len() <= PATH_MAX
        && path.split('/').all(plain)
        && path.split('/').count() > 1
        && TOPS.iter().any(|top| path.split('/').next() == Some(top))
        && parts.all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
