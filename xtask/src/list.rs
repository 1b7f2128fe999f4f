//! `cargo xtask lab list` and `cargo xtask lab kernels`

use crate::{complete, exit, root, run::selected};
use anyhow::Result;
use clap::Args;
use lab::{
    kernel,
    scenario::{Scenario, ScenarioFile},
};
use regex::Regex;
use std::path::PathBuf;

/// List scenarios and what each claims
#[derive(Args)]
#[command(after_help = "Example:\n  cargo xtask lab list --filter ^probes/ --json")]
pub(crate) struct List {
    /// Scenario files, directories, or names such as probes/paths [default: scenarios/]
    #[arg(add = complete::scenarios())]
    paths: Vec<PathBuf>,
    /// List only scenarios whose name matches this regular expression
    #[arg(long, value_name = "RE")]
    filter: Option<Regex>,
    /// List only scenarios that this kernel may run, judging by the version in its name: a kernel of
    /// kernels/*.yaml, `all`, or a version range of plain kernels such as '>=6.1' (repeatable)
    #[arg(long = "kernel", value_name = "NAME", add = complete::kernels())]
    kernels: Vec<String>,
    /// Print a JSON array of {name, path, summary, opt_in}
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
            let entry = |(found, scenario): &(ScenarioFile, Scenario)| serde_json::json!({ "name": found.name, "path": found.path, "summary": scenario.summary, "opt_in": scenario.opt_in });
            let list: Vec<_> = scenarios.iter().map(entry).collect();
            println!("{}", serde_json::to_string_pretty(&list)?);
        } else {
            let width = scenarios.iter().map(|(found, _)| found.name.len()).max().unwrap_or_default();
            for (found, scenario) in &scenarios {
                let opt_in = if scenario.opt_in { " (opt-in: only if named)" } else { "" };
                println!("{:width$}  {}{opt_in}", found.name, scenario.summary);
            }
        }
        Ok(exit::SUCCESS)
    }
}

/// Returns whether the version in the kernel's name satisfies the scenario. Its other requirements
/// can be checked only once the kernel is built.
fn may_run(scenario: &Scenario, kernel: &str) -> bool {
    match (&scenario.requires.kernel, kernel::named_version(kernel)) {
        (Some(versions), Some(version)) => versions.matches(&version),
        _ => true,
    }
}

/// List the kernels of kernels/*.yaml
#[derive(Args)]
#[command(after_help = "Example:\n  cargo xtask lab kernels\n\ndocs/kernels.md explains how to add one.")]
pub(crate) struct Kernels {}

impl Kernels {
    pub(crate) fn run(self) -> Result<u8> {
        let specs = kernel::list(root())?;
        let width = specs.iter().map(|spec| spec.name.len()).max().unwrap_or_default();
        for spec in specs {
            let default = if spec.name == kernel::DEFAULT { " (default)" } else { "" };
            let opt_in = if spec.opt_in { " (opt-in: only if named)" } else { "" };
            println!("{:width$}  {}{default}{opt_in}", spec.name, spec.summary);
        }
        Ok(exit::SUCCESS)
    }
}
