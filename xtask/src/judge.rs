//! `cargo xtask lab judge`

use crate::exit;
use anyhow::Result;
use clap::Args;
use lab::{
    report::Terminal,
    results::{Status, scenarios},
    scenario::Scenario,
    verdict::judge_again,
};
use std::path::PathBuf;

/// Judge a stored run again, without a kernel
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab judge results/latest\n  \
    cargo xtask lab judge results/latest/6.12/probes/eventfd-write --scenario scenarios/probes/eventfd-write.yaml\n\n\
    Exit codes: 0 all pass, 1 at least one does not, 2 usage error or invalid file, 3 the lab itself failed.")]
pub(crate) struct Judge {
    /// Directory of a run, or of one of its scenarios
    result: PathBuf,
    /// Take the expectations, `allow`, `may_leave` and `expect_panic` from this file instead of the stored scenario
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
}

impl Judge {
    pub(crate) fn run(self) -> Result<u8> {
        let scenario = self.scenario.as_deref().map(Scenario::load).transpose()?;
        let terminal = Terminal::new(true);
        let mut code = exit::SUCCESS;
        for directory in scenarios(&self.result)? {
            println!("{}", directory.display());
            let verdict = judge_again(&directory, scenario.as_ref())?;
            print!("{}", terminal.verdict(&verdict));
            code = code.max(match verdict.status {
                Status::Passed => exit::SUCCESS,
                Status::LabError => exit::LAB,
                _ => exit::FAILED,
            });
        }
        Ok(code)
    }
}
