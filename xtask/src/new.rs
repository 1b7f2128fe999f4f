//! `cargo xtask lab new`

use crate::{Usage, exit, place::project, scenarios};
use anyhow::Result;
use clap::Args;
use fs_err::{self as fs, File};
use lab::{
    init::SCENARIO_SCHEMA,
    scenario::{self, PROJECT_FILE, Template},
    words::{called, is_installed},
};
use std::{
    env,
    io::{ErrorKind, Write},
    path::Path,
    slice,
};

/// Create a commented scenario that passes unchanged
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab new first/mine                    a kprobe and the values that it records\n  \
    cargo xtask lab new area/name --kprobe vfs_write  a kprobe on a function\n  \
    cargo xtask lab new area/name --hook vfs_write    an ftrace_ops hook on a function\n\n\
    The file is scenarios/NAME.yaml; docs/tutorial.md describes the next steps.")]
pub(crate) struct New {
    /// Name of the scenario: its path below scenarios/, without .yaml
    name: String,
    /// Start from a kprobe on this function
    #[arg(long, value_name = "FUNCTION", conflicts_with = "hook")]
    kprobe: Option<String>,
    /// Start from a hook of guest/modules/ftracehook on this function
    #[arg(long, value_name = "FUNCTION")]
    hook: Option<String>,
}

impl New {
    pub(crate) fn run(self) -> Result<u8> {
        if is_installed() && project().is_none() && env::var_os("FTRACE_LAB_SCENARIOS").is_none() {
            // The scenarios are then those of the cache, which the next version does not use.
            let message = format!(
                "cannot create `{}`: no {PROJECT_FILE} in this directory or above, next to which its scenarios would \
                 be; `ftrace-lab init` writes one for a module or a program, and `version: 1` is enough",
                self.name
            );
            return Err(Usage(message).into());
        }
        let starter = match (self.kprobe, self.hook) {
            (Some(function), _) => Template::Kprobe(function),
            (None, Some(function)) => Template::Hook(function),
            (None, None) => Template::Values,
        };
        let text = starter.written(&self.name, &schema())?;
        let root = scenarios();
        let path = root.join(format!("{}.yaml", self.name));
        unmixed(&root, &self.name)?;
        let directory = path.parent().unwrap_or(&root);
        fs::create_dir_all(directory)?;
        // A symbolic link could lead out of the scenarios directory.
        let (real, inside) = (fs::canonicalize(directory)?, fs::canonicalize(&root)?);
        if !real.starts_with(&inside) {
            let message = format!("`{}` is outside of `{}`", real.display(), inside.display());
            return Err(Usage(message).into());
        }
        let mut file = match File::create_new(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let message = format!("`{}` already exists; choose another name", path.display());
                return Err(Usage(message).into());
            }
            file => file?,
        };
        file.write_all(text.as_bytes())?;
        let here = env::current_dir().unwrap_or_default();
        let shown = path.strip_prefix(&here).unwrap_or(&path);
        println!("wrote {}\nrun it: {} {}", shown.display(), called("cargo xtask lab run"), self.name);
        Ok(exit::SUCCESS)
    }
}

/// Returns the path of the schema from the directory of the scenarios.
fn schema() -> String {
    let Some(project) = project() else { return "schema.json".to_owned() };
    let depth = scenarios().strip_prefix(&project.directory).map_or(1, |below| below.components().count());
    "../".repeat(depth) + SCENARIO_SCHEMA
}

/// Rejects a name above or below that of another scenario: their result directories would be nested.
fn unmixed(root: &Path, name: &str) -> Result<()> {
    let above = name.match_indices('/').map(|(end, _)| &name[..end]);
    let mut above = above.map(|outer| root.join(format!("{outer}.yaml"))).filter(|path| path.exists());
    // A directory without scenarios, such as that of a module, may have this name.
    let below = Some(root.join(name))
        .filter(|path| path.is_dir() && scenario::find(root, slice::from_ref(path)).is_ok());
    match above.next().or(below) {
        Some(other) => {
            let message = format!(
                "the result directories of `{name}` and `{}` would overlap; choose another name",
                other.display()
            );
            Err(Usage(message).into())
        }
        None => Ok(()),
    }
}
