//! `cargo xtask lab minimize`

use crate::{exit, repro::Instead, root, setup::Setup};
use anyhow::Result;
use clap::Args;
use lab::{
    host::prerequisites::Need,
    progress::Progress,
    repro::{Ready, Reproducer, minimize},
};
use std::path::PathBuf;

/// Make a repro.yaml smaller: drop steps, events and expectations while it still fails the same way
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab minimize results/latest/6.12/probes/remove/repro.yaml    writes repro-min.yaml beside it\n  \
    cargo xtask lab minimize repro.yaml --output small.yaml --repeat 5       of a failure that comes and goes\n\n\
    Each try is a run on a pristine machine. What is dropped is shown as it goes; Ctrl-C writes nothing.\n\n\
    Exit codes: 0 a file was written, smaller or not; 2 usage, or the file is no reproducer; 3 it does not \
    fail as it did, or the lab itself could not do its work.")]
pub(crate) struct Minimize {
    /// A repro.yaml
    file: PathBuf,
    /// The file that is written [default: NAME-min.yaml beside FILE]
    #[arg(long, short, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Try each candidate up to N times before it counts as one that does not fail
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    #[command(flatten)]
    kernel: Instead,
    #[command(flatten)]
    setup: Setup,
}

impl Minimize {
    pub(crate) fn run(self) -> Result<u8> {
        let reproducer = Reproducer::read(&self.file)?;
        let progress = Progress::new();
        let cache = self.setup.ensure(Need::Run, &progress)?;
        let kernel = self.kernel.build(&cache, &progress)?;
        let mut ready = Ready::new(&cache, root(), &reproducer, kernel.as_ref(), &progress)?;
        let tell = |dropped: &str| progress.suspend(|| println!("dropped {dropped}"));
        let smaller = minimize(&mut ready, &reproducer, self.repeat, &progress, tell)?;
        let output = self.output.clone().unwrap_or_else(|| self.beside());
        smaller.reproducer.write(&output)?;
        println!("{} dropped in {} runs: {}", smaller.dropped.len(), smaller.runs, output.display());
        Ok(exit::SUCCESS)
    }

    fn beside(&self) -> PathBuf {
        let stem = self.file.file_stem().unwrap_or_default().to_string_lossy();
        self.file.with_file_name(format!("{stem}-min.yaml"))
    }
}
