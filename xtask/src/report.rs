//! `cargo xtask lab report`

use crate::{Usage, exit};
use anyhow::{Context, Result};
use clap::Args;
use lab::{
    report::{REPORT, summary, write_forms},
    run::times::stored_results,
};
use std::path::PathBuf;

/// Make the report of a run again: report.html, results.ktap and junit.xml, from its results.json
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab report results/latest\n  \
    xdg-open \"$(cargo xtask lab report results/latest --path)\"")]
pub(crate) struct Report {
    /// The directory of a run or of a merged report
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Print nothing but the path of report.html
    #[arg(long)]
    path: bool,
}

impl Report {
    pub(crate) fn run(self) -> Result<u8> {
        let results = stored_results(&self.run).map_err(|error| Usage(format!("{error:#}")))?;
        let run = if self.run.is_dir() { self.run } else { self.run.with_file_name("") };
        write_forms(&results, &run)?;
        let path = run.join(REPORT);
        let path = path.canonicalize().with_context(|| format!("cannot resolve `{}`", path.display()))?;
        if !self.path {
            println!("{}", summary(&results));
        }
        println!("{}", path.display());
        Ok(exit::SUCCESS)
    }
}
