//! `cargo xtask lab check`

use crate::{exit, root};
use anyhow::Result;
use clap::Args;
use lab::scenario::{self, Scenario};
use std::path::PathBuf;

/// Validate scenario files without a kernel
#[derive(Args)]
#[command(after_help = "Example:\n  cargo xtask lab check scenarios/probes/eventfd-write.yaml")]
pub(crate) struct Check {
    /// Scenario files or directories of them
    #[arg(required = true)]
    paths: Vec<PathBuf>,
}

impl Check {
    pub(crate) fn run(self) -> Result<u8> {
        let found = scenario::find(&root().join("scenarios"), &self.paths)?;
        let mut invalid = 0;
        for found in &found {
            match Scenario::load(&found.path) {
                Ok(_) => println!("{}: valid", found.path.display()),
                Err(error) => {
                    invalid += 1;
                    println!("{error}\n");
                }
            }
        }
        println!("{} valid, {invalid} invalid", found.len() - invalid);
        Ok(if invalid == 0 { exit::SUCCESS } else { exit::INVALID })
    }
}
