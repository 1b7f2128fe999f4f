//! Where a module comes from: by name, from the kernel's samples, or from any directory.

use super::{
    keyed::verb_keyed,
    names::ModuleName,
    text::{FromText, from_text, printable_line},
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::{fmt, path::PathBuf};

/// The module that `hook:` steps speak to.
pub const HOOK_MODULE: &str = "ftracehook";

verb_keyed! {
    /// A module that is not the lab's own.
    pub enum ModuleSource is "module" {
        /// `source: ../my-driver`
        "source" => SourceModule,
        /// `sample: kprobes/kprobe_example`
        "sample" => SampleModule,
    }
}

/// Builds a directory out of the kernel's tree, in a copy.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceModule {
    /// The directory, which has a `Kbuild` or a `Makefile` for kbuild, from where the scenario's
    /// file is.
    pub source: SourcePath,
    /// Which of the modules that it makes is loaded. Default: the only one.
    #[serde(default)]
    pub name: Option<ModuleName>,
}

/// Takes one of the kernel's own samples.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SampleModule {
    /// Its path below `samples/`, without `.ko`.
    pub sample: SamplePath,
}

/// A directory with a module's sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePath(pub(super) PathBuf);

impl FromText for SourcePath {
    const EXPECTED: &'static str = "a directory with a Kbuild or a Makefile";

    fn from_text(text: &str) -> Result<SourcePath, String> {
        printable_line(text)?;
        if text.trim().is_empty() || text.len() > 4000 {
            return Err(format!("`{text}` is not a directory, expected {}", Self::EXPECTED));
        }
        Ok(SourcePath(text.into()))
    }
}

from_text!(SourcePath, { "type": "string", "minLength": 1, "examples": ["../../drivers/mine"] });

/// A sample of the kernel: `kprobes/kprobe_example`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplePath(pub(super) String);

impl FromText for SamplePath {
    const EXPECTED: &'static str = "a path below samples/ such as kprobes/kprobe_example";

    fn from_text(text: &str) -> Result<SamplePath, String> {
        let good = |part: &str| ModuleName::from_text(part).is_ok();
        if text.split('/').count() > 4 || !text.split('/').all(good) {
            return Err(format!("`{text}` is not a sample, expected {}", Self::EXPECTED));
        }
        Ok(SamplePath(text.to_owned()))
    }
}

from_text!(SamplePath, {
    "type": "string",
    "pattern": "^[A-Za-z0-9_][A-Za-z0-9_/-]*$",
    "examples": ["kprobes/kprobe_example", "ftrace/ftrace-ops"],
});

/// A module that a scenario needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wanted {
    /// One of `guest/modules`, else one of the kernel's own.
    Named(String),
    /// One of the kernel's samples, by its path below `samples/`.
    Sample(String),
    /// What a directory makes, from where the scenario's file is, and which of it.
    Source(PathBuf, Option<String>),
}

impl From<&ModuleSource> for Wanted {
    fn from(source: &ModuleSource) -> Wanted {
        match source {
            ModuleSource::SourceModule(module) => {
                Wanted::Source(module.source.0.clone(), module.name.as_deref().map(str::to_owned))
            }
            ModuleSource::SampleModule(module) => Wanted::Sample(module.sample.0.clone()),
        }
    }
}

/// As in messages.
impl fmt::Display for Wanted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wanted::Named(name) => out.write_str(name),
            Wanted::Sample(path) => write!(out, "samples/{path}"),
            Wanted::Source(path, None) => write!(out, "{}", path.display()),
            Wanted::Source(path, Some(name)) => write!(out, "{name} of {}", path.display()),
        }
    }
}
