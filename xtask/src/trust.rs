//! `--trust`: consent to building a stranger's file on a host that cannot confine it.

use crate::Usage;
use anyhow::Result;
use clap::Args;
use lab::host::confine;
use std::{
    io::{IsTerminal, stdin},
    path::Path,
};

/// The consent of the user.
#[derive(Args, Clone, Copy)]
pub(crate) struct Trust {
    /// Build the code in FILE even if this host cannot confine builds
    #[arg(long)]
    trust: bool,
}

impl Trust {
    /// Returns if builds are confined, or the user trusts `file`; asks on a terminal.
    pub(crate) fn ensure(self, file: &Path) -> Result<()> {
        if self.trust || confine::gap()?.is_none() || ask(file)? {
            return Ok(());
        }
        Err(Usage(format!(
            "cannot build `{}` without `--trust`: the code in it could reach what the warning names; read it \
             first, for instance with `cargo xtask lab repro --show`, or install bubblewrap on a host with user \
             namespaces",
            file.display()
        ))
        .into())
    }
}

fn ask(file: &Path) -> Result<bool> {
    if !stdin().is_terminal() {
        return Ok(false);
    }
    eprint!("Do you trust the code in `{}`? [y/N] ", file.display());
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
