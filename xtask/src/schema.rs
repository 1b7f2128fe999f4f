//! `cargo xtask lab schema`

use crate::{exit, root};
use anyhow::{Context, Result};
use clap::Args;
use std::fs;

/// Write scenarios/schema.json, the JSON Schema of scenario files, from the types that read them
#[derive(Args)]
#[command(after_help = "Example:\n  cargo xtask lab schema && git diff scenarios/schema.json")]
pub(crate) struct Schema {}

impl Schema {
    pub(crate) fn run(self) -> Result<u8> {
        let path = root().join("scenarios/schema.json");
        fs::write(&path, lab::scenario::schema())
            .with_context(|| format!("cannot write `{}`", path.display()))?;
        println!("wrote {}", path.display());
        Ok(exit::SUCCESS)
    }
}
