//! `cargo xtask lab judge`

use crate::exit;
use anyhow::Result;
use clap::Args;
use lab::{
    report::Terminal,
    scenario::Scenario,
    stored::{judge_again, scenarios},
    verdict::OutcomeStatus,
};
use std::path::PathBuf;

/// Evaluate expectations again on a stored run, without a kernel
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab judge results/latest\n  \
    cargo xtask lab judge results/latest/6.12/probes/eventfd-write --scenario scenarios/probes/eventfd-write.yaml\n\n\
    Exit codes: 0 all expectations hold, 1 one does not, 2 usage or an invalid file.")]
pub(crate) struct Judge {
    /// A run's directory, or that of one of its scenarios
    result: PathBuf,
    /// Take the expectations from this file, not from the scenario as it was run
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
}

impl Judge {
    pub(crate) fn run(self) -> Result<u8> {
        let scenario = self.scenario.as_deref().map(Scenario::load).transpose()?;
        let terminal = Terminal::new(true);
        let mut all_hold = true;
        for directory in scenarios(&self.result)? {
            println!("{}", directory.display());
            for outcome in judge_again(&directory, scenario.as_ref())? {
                print!("{}", terminal.outcome(&outcome));
                all_hold &= outcome.status == OutcomeStatus::Passed;
            }
        }
        Ok(if all_hold { exit::SUCCESS } else { exit::FAILED })
    }
}
