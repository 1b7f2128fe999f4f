//! `cargo xtask lab schema`

use crate::{exit, root};
use anyhow::{Context, Result};
use clap::Args;
use lab::scenario;
use std::fs;

/// Write scenarios/schema.json and docs/scenarios.md from the types that read scenario files
#[derive(Args)]
#[command(
    after_help = "Example:\n  cargo xtask lab schema && git diff scenarios/schema.json docs/scenarios.md"
)]
pub(crate) struct Schema {}

impl Schema {
    pub(crate) fn run(self) -> Result<u8> {
        for (file, text) in
            [("scenarios/schema.json", scenario::schema()), ("docs/scenarios.md", scenario::reference())]
        {
            let path = root().join(file);
            fs::write(&path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
            println!("wrote {}", path.display());
        }
        Ok(exit::SUCCESS)
    }
}
