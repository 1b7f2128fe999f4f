//! `cargo xtask lab list` and `cargo xtask lab kernels`

use crate::{exit, root, run::selected};
use anyhow::Result;
use clap::Args;
use lab::kernel;
use regex::Regex;
use std::path::PathBuf;

/// List scenarios, with the claim each makes
#[derive(Args)]
#[command(after_help = "Example:\n  cargo xtask lab list --filter ^probes/ --json")]
pub(crate) struct List {
    /// Scenario files or directories of them [default: scenarios/]
    paths: Vec<PathBuf>,
    /// Only scenarios whose name matches this regular expression
    #[arg(long, value_name = "RE")]
    filter: Option<Regex>,
    /// One JSON array of {name, path, summary, opt_in}
    #[arg(long)]
    json: bool,
}

impl List {
    pub(crate) fn run(self) -> Result<u8> {
        let scenarios = selected(&self.paths, self.filter.as_ref())?;
        if self.json {
            let entry = |(found, scenario): &(lab::scenario::Found, lab::scenario::Scenario)| serde_json::json!({ "name": found.name, "path": found.path, "summary": scenario.summary, "opt_in": scenario.opt_in });
            let list: Vec<_> = scenarios.iter().map(entry).collect();
            println!("{}", serde_json::to_string_pretty(&list)?);
        } else {
            let width = scenarios.iter().map(|(found, _)| found.name.len()).max().unwrap_or_default();
            for (found, scenario) in &scenarios {
                let opt_in = if scenario.opt_in { " (only where it is named)" } else { "" };
                println!("{:width$}  {}{opt_in}", found.name, scenario.summary);
            }
        }
        Ok(exit::SUCCESS)
    }
}

/// List the kernels of kernels/*.yaml
#[derive(Args)]
#[command(after_help = "Example:\n  cargo xtask lab kernels")]
pub(crate) struct Kernels {}

impl Kernels {
    pub(crate) fn run(self) -> Result<u8> {
        let specs = kernel::list(root())?;
        let width = specs.iter().map(|spec| spec.name.len()).max().unwrap_or_default();
        for spec in specs {
            let default = if spec.name == kernel::DEFAULT { " (default)" } else { "" };
            println!("{:width$}  {}{default}", spec.name, spec.summary);
        }
        Ok(exit::SUCCESS)
    }
}
