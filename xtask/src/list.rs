//! `cargo xtask lab list` and `cargo xtask lab kernels`

use crate::{
    complete, exit,
    json::{self, Json},
    root,
    run::selected,
};
use anyhow::Result;
use clap::Args;
use lab::{
    kernel,
    scenario::{Scenario, ScenarioFile},
};
use regex::Regex;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::{Path, PathBuf};

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
    #[command(flatten)]
    pub(crate) json: Json,
}

/// A scenario.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Listed<'a> {
    /// Its path below the directory of scenarios, without `.yaml`.
    name: &'a str,
    path: &'a Path,
    /// What it claims.
    summary: &'a str,
    /// Whether it runs only if it is named.
    opt_in: bool,
}

impl List {
    pub(crate) fn run(self) -> Result<u8> {
        let mut scenarios = selected(&self.paths, self.filter.as_ref())?;
        let kernels = kernel::choose(root(), &self.kernels)?;
        scenarios
            .retain(|(_, scenario)| kernels.is_empty() || kernels.iter().any(|name| may_run(scenario, name)));
        if self.json.wanted {
            json::print(&scenarios.iter().map(listed).collect::<Vec<_>>())?;
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

fn listed((found, scenario): &(ScenarioFile, Scenario)) -> Listed<'_> {
    Listed { name: &found.name, path: &found.path, summary: &scenario.summary, opt_in: scenario.opt_in }
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
pub(crate) struct Kernels {
    #[command(flatten)]
    pub(crate) json: Json,
}

/// A kernel.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ListedKernel<'a> {
    name: &'a str,
    summary: &'a str,
    /// Whether it is used if none is named.
    default: bool,
    /// Whether `all` and version ranges leave it out.
    opt_in: bool,
}

impl Kernels {
    pub(crate) fn run(self) -> Result<u8> {
        let specs = kernel::list(root())?;
        if self.json.wanted {
            let listed = specs.iter().map(|spec| ListedKernel {
                name: &spec.name,
                summary: &spec.summary,
                default: spec.name == kernel::DEFAULT,
                opt_in: spec.opt_in,
            });
            json::print(&listed.collect::<Vec<_>>())?;
            return Ok(exit::SUCCESS);
        }
        let width = specs.iter().map(|spec| spec.name.len()).max().unwrap_or_default();
        for spec in specs {
            let default = if spec.name == kernel::DEFAULT { " (default)" } else { "" };
            let opt_in = if spec.opt_in { " (opt-in: only if named)" } else { "" };
            println!("{:width$}  {}{default}{opt_in}", spec.name, spec.summary);
        }
        Ok(exit::SUCCESS)
    }
}
