//! `cargo xtask bench`

use crate::{exit, root, setup::Setup};
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use lab::{bench, host::prerequisites::Need, progress::Progress};
use std::{env, os::unix::process::CommandExt, process::Command};

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
    /// A report of 200 scenarios and a million events: its size, and how soon a browser shows it
    Report,
    /// Paths through structs: one from nothing, and a hundred together
    Resolve,
    /// A million events: decode and judge against trace-cmd report, and raw drain against text
    Trace,
    /// A whole Debian userland: its boot beside vmtest's own, crash's attach, and drgn's look
    Userland,
}

impl Bench {
    pub(crate) fn run(self) -> Result<u8> {
        // What decodes and judges is measured as it is when it is optimised.
        if matches!(self.name, Name::Trace) && cfg!(debug_assertions) {
            return optimised();
        }
        let progress = Progress::new();
        let cache = self.setup.ensure(Need::Test, &progress)?;
        let figures = match self.name {
            Name::Boot => bench::boot(&cache, root(), &env::current_exe()?, &progress)?,
            Name::Isolation => bench::isolation(&cache, root(), &env::current_exe()?, &progress)?,
            Name::Report => bench::report(&cache, root(), &progress)?,
            Name::Resolve => bench::resolve(&cache, root(), &progress)?,
            Name::Trace => bench::trace(&cache, root(), &env::current_exe()?, &progress)?,
            Name::Userland => bench::userland(&cache, root(), &progress)?,
        };
        if self.json {
            println!("{}", serde_json::to_string(&figures)?);
        } else {
            print!("{figures}");
        }
        Ok(exit::SUCCESS)
    }
}

/// The same command line, by an xtask that is built for speed.
fn optimised() -> Result<u8> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let error = Command::new(cargo)
        .args(["run", "--release", "--quiet", "--package", "xtask", "--"])
        .args(env::args_os().skip(1))
        .current_dir(root())
        .exec();
    Err(error).context("cannot run `cargo run --release --package xtask`")
}
