//! `cargo xtask lab new`

use crate::{Usage, exit, scenarios};
use anyhow::{Context, Result};
use clap::Args;
use lab::scenario::{self, Starter};
use std::{
    env,
    fs::{self, File},
    io::{ErrorKind, Write},
    path::Path,
    slice,
};

/// Write a new scenario that passes as it is, with comments that say what stands where
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab new first/mine                    a kprobe, and the values that it sees\n  \
    cargo xtask lab new area/name --kprobe vfs_write  a kprobe on a function\n  \
    cargo xtask lab new area/name --hook vfs_write    a hook on a function, by ftrace_ops\n\n\
    The file is scenarios/NAME.yaml; what comes next is in docs/tutorial.md.")]
pub(crate) struct New {
    /// Its name: the path below scenarios/, without .yaml
    name: String,
    /// Begin with a kprobe on this function
    #[arg(long, value_name = "FUNCTION", conflicts_with = "hook")]
    kprobe: Option<String>,
    /// Begin with a hook of guest/modules/ftracehook on this function
    #[arg(long, value_name = "FUNCTION")]
    hook: Option<String>,
}

impl New {
    pub(crate) fn run(self) -> Result<u8> {
        let starter = match (self.kprobe, self.hook) {
            (Some(function), _) => Starter::Kprobe(function),
            (None, Some(function)) => Starter::Hook(function),
            (None, None) => Starter::Values,
        };
        let text = starter.written(&self.name)?;
        let root = scenarios();
        let path = root.join(format!("{}.yaml", self.name));
        unmixed(&root, &self.name)?;
        let directory = path.parent().unwrap_or(&root);
        fs::create_dir_all(directory).with_context(|| format!("cannot make `{}`", directory.display()))?;
        // A link to somewhere else would have the file written there.
        let (real, inside) = (directory.canonicalize()?, root.canonicalize()?);
        if !real.starts_with(&inside) {
            let message = format!("`{}` is outside of `{}`", real.display(), inside.display());
            return Err(Usage(message).into());
        }
        let mut file = match File::create_new(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let message = format!("`{}` is there already; choose another name", path.display());
                return Err(Usage(message).into());
            }
            file => file.with_context(|| format!("cannot create `{}`", path.display()))?,
        };
        file.write_all(text.as_bytes()).with_context(|| format!("cannot write `{}`", path.display()))?;
        let here = env::current_dir().unwrap_or_default();
        let shown = path.strip_prefix(&here).unwrap_or(&path);
        println!("wrote {}\nrun it: cargo xtask lab run {}", shown.display(), self.name);
        Ok(exit::SUCCESS)
    }
}

/// A scenario's results are in a directory of its name, so no other may be below or above it.
fn unmixed(root: &Path, name: &str) -> Result<()> {
    let above = name.match_indices('/').map(|(end, _)| &name[..end]);
    let mut above = above.map(|outer| root.join(format!("{outer}.yaml"))).filter(|path| path.exists());
    // A directory without scenarios, such as that of a module, may have its name.
    let below = Some(root.join(name))
        .filter(|path| path.is_dir() && scenario::find(root, slice::from_ref(path)).is_ok());
    match above.next().or(below) {
        Some(other) => {
            let message = format!(
                "the results of `{name}` and of what is in `{}` would mix; choose another name",
                other.display()
            );
            Err(Usage(message).into())
        }
        None => Ok(()),
    }
}
