//! `cargo xtask lab schema`

use crate::{exit, root};
use anyhow::Result;
use clap::Args;
use fs_err as fs;
use lab::scenario;

/// Generate scenarios/schema.json and docs/scenarios.md from the types that read scenario files
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
            fs::write(&path, text)?;
            println!("wrote {}", path.display());
        }
        Ok(exit::SUCCESS)
    }
}
