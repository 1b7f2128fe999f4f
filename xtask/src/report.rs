//! `cargo xtask lab report`

use crate::{Usage, exit, root};
use anyhow::Result;
use clap::Args;
use lab::{
    Lab,
    report::{REPORT, summary, write_forms},
    results::stored_results,
};
use std::path::PathBuf;

/// Regenerate report.html, results.ktap and junit.xml of a run from its results.json, and the pages of its coverage
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab report results/latest\n  \
    xdg-open \"$(cargo xtask lab report results/latest --path)\"")]
pub(crate) struct Report {
    /// Directory of a run or of a merged report
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Print only the path of report.html
    #[arg(long)]
    path: bool,
}

impl Report {
    pub(crate) fn run(self) -> Result<u8> {
        let results = stored_results(&self.run).map_err(|error| Usage(format!("{error:#}")))?;
        let run = if self.run.is_dir() { self.run } else { self.run.with_file_name("") };
        write_forms(&results, &run, &run, Some(&Lab::open(root())?))?;
        let path = run.join(REPORT);
        let path = fs_err::canonicalize(path)?;
        if !self.path {
            println!("{}", summary(&results));
        }
        println!("{}", path.display());
        Ok(exit::SUCCESS)
    }
}
