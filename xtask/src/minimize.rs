//! `cargo xtask lab minimize`

use crate::{exit, repro::KernelOverride, setup::Setup, trust::Trust};
use anyhow::Result;
use clap::Args;
use lab::{
    host::prerequisites::Need,
    repro::{Ready, minimize},
    reproducer::Reproducer,
};
use std::path::PathBuf;

/// Minimize a repro.yaml: drop steps, events and expectations while it still fails the same way
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab minimize results/latest/6.12/probes/remove/repro.yaml    writes repro-min.yaml next to it\n  \
    cargo xtask lab minimize repro.yaml --output small.yaml --repeat 5       for an intermittent failure\n\n\
    Each attempt runs on a pristine machine. Each dropped part is printed; Ctrl-C writes nothing.\n\n\
    Exit codes: 0 a file was written, smaller or not; 2 usage error, or the file is not a reproducer; 3 the \
    failure does not reproduce, or the lab itself failed.")]
pub(crate) struct Minimize {
    /// A repro.yaml
    file: PathBuf,
    /// Output file [default: NAME-min.yaml next to FILE]
    #[arg(long, short, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Run each candidate up to N times before concluding that it does not fail
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    #[command(flatten)]
    kernel: KernelOverride,
    #[command(flatten)]
    trust: Trust,
    #[command(flatten)]
    setup: Setup,
}

impl Minimize {
    pub(crate) fn run(self) -> Result<u8> {
        let reproducer = Reproducer::read(&self.file)?;
        let lab = self.setup.ensure(Need::Run)?;
        self.trust.ensure(&self.file)?;
        let kernel = self.kernel.build(&lab)?;
        let mut ready = Ready::new(&lab, &reproducer, kernel.as_ref())?;
        let tell = |dropped: &str| lab.progress.suspend(|| println!("dropped {dropped}"));
        let smaller = minimize(&mut ready, &reproducer, self.repeat, tell)?;
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
