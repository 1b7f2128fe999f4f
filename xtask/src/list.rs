//! `cargo xtask lab list` and `cargo xtask lab kernels`

use crate::{complete, exit, root, run::selected};
use anyhow::Result;
use clap::Args;
use lab::{
    kernel,
    scenario::{Found, Scenario},
};
use regex::Regex;
use std::path::PathBuf;

/// List scenarios, with the claim each makes
#[derive(Args)]
#[command(after_help = "Example:\n  cargo xtask lab list --filter ^probes/ --json")]
pub(crate) struct List {
    /// Scenario files, directories of them, or names such as probes/paths [default: scenarios/]
    #[arg(add = complete::scenarios())]
    paths: Vec<PathBuf>,
    /// Only scenarios whose name matches this regular expression
    #[arg(long, value_name = "RE")]
    filter: Option<Regex>,
    /// Only what one of these kernels may run, by the versions their names say: a kernel of
    /// kernels/*.yaml, `all`, or plain versions such as '>=6.1'; may be given several times
    #[arg(long = "kernel", value_name = "NAME", add = complete::kernels())]
    kernels: Vec<String>,
    /// One JSON array of {name, path, summary, opt_in}
    #[arg(long)]
    json: bool,
}

impl List {
    pub(crate) fn run(self) -> Result<u8> {
        let mut scenarios = selected(&self.paths, self.filter.as_ref())?;
        let kernels = kernel::choose(root(), &self.kernels)?;
        scenarios
            .retain(|(_, scenario)| kernels.is_empty() || kernels.iter().any(|name| may_run(scenario, name)));
        if self.json {
            let entry = |(found, scenario): &(Found, Scenario)| serde_json::json!({ "name": found.name, "path": found.path, "summary": scenario.summary, "opt_in": scenario.opt_in });
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

/// Whether a kernel of this name has a version that the scenario is for. What else it requires is
/// known when the kernel is built.
fn may_run(scenario: &Scenario, kernel: &str) -> bool {
    match (&scenario.requires.kernel, kernel::named_version(kernel)) {
        (Some(versions), Some(version)) => versions.matches(&version),
        _ => true,
    }
}

/// List the kernels of kernels/*.yaml
#[derive(Args)]
#[command(after_help = "Example:\n  cargo xtask lab kernels\n\nHow to add one is in docs/kernels.md.")]
pub(crate) struct Kernels {}

impl Kernels {
    pub(crate) fn run(self) -> Result<u8> {
        let specs = kernel::list(root())?;
        let width = specs.iter().map(|spec| spec.name.len()).max().unwrap_or_default();
        for spec in specs {
            let default = if spec.name == kernel::DEFAULT { " (default)" } else { "" };
            let opt_in = if spec.opt_in { " (only where it is named)" } else { "" };
            println!("{:width$}  {}{default}{opt_in}", spec.name, spec.summary);
        }
        Ok(exit::SUCCESS)
    }
}
