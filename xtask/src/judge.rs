//! `cargo xtask lab judge`

use crate::{
    exit,
    json::{self, Json},
};
use anyhow::Result;
use clap::Args;
use lab::{
    report::Terminal,
    results::{Status, Verdict, scenarios},
    scenario::Scenario,
    verdict::judge_again,
};
use schemars::JsonSchema;
use serde::Serialize;
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
    #[command(flatten)]
    pub(crate) json: Json,
}

/// A scenario of the run, judged again.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Judged {
    directory: PathBuf,
    #[serde(flatten)]
    verdict: Verdict,
}

impl Judge {
    pub(crate) fn run(self) -> Result<u8> {
        let scenario = self.scenario.as_deref().map(Scenario::load).transpose()?;
        let terminal = Terminal::new(true);
        let mut code = exit::SUCCESS;
        let mut judged = Vec::new();
        for directory in scenarios(&self.result)? {
            if !self.json.wanted {
                println!("{}", directory.display());
            }
            let verdict = judge_again(&directory, scenario.as_ref())?;
            if !self.json.wanted {
                print!("{}", terminal.verdict(&verdict));
            }
            code = code.max(match verdict.status {
                Status::Passed => exit::SUCCESS,
                Status::LabError => exit::LAB,
                _ => exit::FAILED,
            });
            judged.push(Judged { directory, verdict });
        }
        if self.json.wanted {
            json::print(&judged)?;
        }
        Ok(code)
    }
}
