//! The origin of a module: by name, from the kernel's samples, or from any directory.

use crate::scenario::{
    read::{
        keyed::verb_keyed,
        scalar::{FromText, from_text, printable_line},
    },
    values::names::{Line, ModuleName},
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::{fmt, path::PathBuf};

/// The module that `hook:` steps control.
pub const HOOK_MODULE: &str = "ftracehook";

verb_keyed! {
    /// A module that is not part of the lab.
    pub enum ModuleSource is "module" {
        /// `source: ../my-driver`
        "source" => SourceModule,
        /// `sample: kprobes/kprobe_example`
        "sample" => SampleModule,
    }
}

/// Builds a directory outside of the kernel tree, in a copy.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceModule {
    /// The directory, relative to the scenario file. It must contain a `Kbuild` or a `Makefile` for
    /// kbuild.
    pub source: SourcePath,
    /// The module to load, of those that it builds. Default: the only one.
    #[serde(default)]
    pub name: Option<ModuleName>,
    /// The command that builds it instead of kbuild, as for `sh -c`: `make KDIR=${kernel}`. It runs in a copy of
    /// the directory; `${kernel}` is what kbuild's `make -C` takes, and architecture and compiler are set for
    /// every make.
    #[serde(default)]
    pub build: Option<Line>,
}

/// Uses one of the kernel's own samples.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SampleModule {
    /// Path of the sample below `samples/`, without `.ko`.
    pub sample: SamplePath,
}

/// A directory with a module's sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePath(pub(in crate::scenario) PathBuf);

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
pub struct SamplePath(pub(in crate::scenario) String);

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
pub enum ModuleRef {
    /// One of `guest/modules`, else one of the kernel's own.
    Named(String),
    /// One of the kernel's samples, by its path below `samples/`.
    Sample(String),
    /// One of the modules that a directory builds.
    Source {
        /// The directory, relative to the scenario file.
        directory: PathBuf,
        /// The name of the module, unless it is the only one.
        name: Option<String>,
        /// The command that builds it instead of kbuild.
        build: Option<String>,
    },
}

impl From<&ModuleSource> for ModuleRef {
    fn from(source: &ModuleSource) -> ModuleRef {
        match source {
            ModuleSource::SourceModule(module) => ModuleRef::Source {
                directory: module.source.0.clone(),
                name: module.name.as_deref().map(str::to_owned),
                build: module.build.as_ref().map(ToString::to_string),
            },
            ModuleSource::SampleModule(module) => ModuleRef::Sample(module.sample.0.clone()),
        }
    }
}

/// The form used in messages.
impl fmt::Display for ModuleRef {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModuleRef::Named(name) => out.write_str(name),
            ModuleRef::Sample(path) => write!(out, "samples/{path}"),
            ModuleRef::Source { directory, name: None, .. } => write!(out, "{}", directory.display()),
            ModuleRef::Source { directory, name: Some(name), .. } => {
                write!(out, "{name} of {}", directory.display())
            }
        }
    }
}
