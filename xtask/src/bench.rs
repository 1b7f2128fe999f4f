//! `cargo xtask bench`

use crate::{exit, root, setup::Setup};
use anyhow::Result;
use clap::{Args, ValueEnum};
use lab::{bench, host::prerequisites::Need, progress::Progress};
use std::env;

/// Measure what the lab promises about its speed
#[derive(Args)]
#[command(after_help = "Example:\n  cargo xtask bench boot --json")]
pub(crate) struct Bench {
    /// What to measure
    name: Name,
    /// One JSON object: {bench, figures: {name: number}}
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    setup: Setup,
}

#[derive(Clone, Copy, ValueEnum)]
enum Name {
    /// Cold boot against a bare /init, and an unchanged rerun
    Boot,
    /// A pristine machine for each scenario: restore, memory, and runs of up to 200 scenarios
    Isolation,
}

impl Bench {
    pub(crate) fn run(self) -> Result<u8> {
        let progress = Progress::new();
        let cache = self.setup.ensure(Need::Test, &progress)?;
        let figures = match self.name {
            Name::Boot => bench::boot(&cache, root(), &env::current_exe()?, &progress)?,
            Name::Isolation => bench::isolation(&cache, root(), &env::current_exe()?, &progress)?,
        };
        if self.json {
            println!("{}", serde_json::to_string(&figures)?);
        } else {
            print!("{figures}");
        }
        Ok(exit::SUCCESS)
    }
}
