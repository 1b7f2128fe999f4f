//! `cargo xtask lab check`

use crate::{
    complete, exit,
    init::prepare_results,
    json::{self, Json},
    place::{default_kernels, found_scenarios, project, results_of},
    root,
    setup::Setup,
};
use anyhow::Result;
use clap::Args;
use lab::{
    fit::{self, Unfit},
    guest,
    host::prerequisites::Need,
    kernel::{self, Kernel},
    scenario::Scenario,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::{fmt, path::PathBuf};

/// Validate scenario files; with --kernel, also what they probe and trace, without booting
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab check scenarios/probes/eventfd-write.yaml\n  \
    cargo xtask lab check scenarios --kernel '>=6.1'     can these kernels trace what they probe?\n\n\
    docs/scenarios.md describes every field of a scenario.\n\n\
    Exit codes: 0 all are valid (unsupported allowed); 2 at least one is invalid; 3 the lab itself failed.")]
pub(crate) struct Check {
    /// Scenario files, directories, or names such as probes/paths [default: all of scenarios/, and ftrace-lab.yaml]
    #[arg(add = complete::scenarios())]
    paths: Vec<PathBuf>,
    /// Also check against this kernel, as for `lab run`; it is built if necessary (repeatable)
    #[arg(long, value_name = "NAME", add = complete::kernels())]
    kernel: Vec<String>,
    #[command(flatten)]
    pub(crate) json: Json,
    #[command(flatten)]
    setup: Setup,
}

/// A scenario file, on a kernel if one is named.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Checked {
    path: PathBuf,
    kernel: Option<String>,
    validity: Validity,
    /// What is wrong, with file, line and column where it has one; or why the kernel does not support it.
    reason: String,
}

#[derive(Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Validity {
    Valid,
    /// The kernel lacks what it requires.
    Unsupported,
    Invalid,
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Checked { path, kernel, validity, reason } = self;
        let path = path.display();
        let said = match validity {
            Validity::Valid => "valid",
            Validity::Unsupported => "unsupported",
            Validity::Invalid => "invalid",
        };
        match kernel {
            None if reason.is_empty() => write!(f, "{path}: {said}"),
            // It names the file.
            None => writeln!(f, "{reason}"),
            Some(kernel) if reason.is_empty() => write!(f, "{path} on {kernel}: {said}"),
            Some(kernel) => write!(f, "{path} on {kernel}: {said}: {reason}"),
        }
    }
}

impl Check {
    pub(crate) fn run(self) -> Result<u8> {
        let found = found_scenarios(&self.paths)?;
        // The project's file was read to find the scenarios; what is left is whether its kernels exist.
        default_kernels()?;
        if let Some(Err(error)) = project().map(|project| prepare_results(&results_of(project))) {
            // Only editors miss it.
            eprintln!("warning: no schemas for editors: {error:#}");
        }
        let kernels = self.kernels()?;
        let mut checked = Vec::new();
        for found in found {
            for one in check(found.path, &kernels)? {
                if !self.json.wanted {
                    println!("{one}");
                }
                checked.push(one);
            }
        }
        let count = |validity| checked.iter().filter(|one| one.validity == validity).count();
        let (valid, invalid) = (count(Validity::Valid), count(Validity::Invalid));
        if self.json.wanted {
            json::print(&checked)?;
        } else if kernels.is_empty() {
            println!("{valid} valid, {invalid} invalid");
        } else {
            println!("{valid} valid, {invalid} invalid, {} unsupported", count(Validity::Unsupported));
        }
        Ok(if invalid == 0 { exit::SUCCESS } else { exit::INVALID })
    }

    fn kernels(&self) -> Result<Vec<Kernel>> {
        if self.kernel.is_empty() {
            return Ok(Vec::new());
        }
        let names = kernel::choose(root(), &self.kernel)?;
        let lab = self.setup.ensure(Need::Run)?;
        names.iter().map(|name| kernel::build(&lab, name, None)).collect()
    }
}

/// Checks a file, and on each kernel that it can be checked on.
fn check(path: PathBuf, kernels: &[Kernel]) -> Result<Vec<Checked>> {
    let invalid =
        |reason| Ok(vec![Checked { path: path.clone(), kernel: None, validity: Validity::Invalid, reason }]);
    let scenario = match Scenario::load(&path) {
        Ok(scenario) => scenario,
        Err(error) => return invalid(error.to_string()),
    };
    if let Err(error) = guest::check_sources(&scenario) {
        return invalid(format!("{}: {error:#}", path.display()));
    }
    if kernels.is_empty() {
        return Ok(vec![Checked { path, kernel: None, validity: Validity::Valid, reason: String::new() }]);
    }
    let on = |kernel: &Kernel| {
        let unfit = fit::fit(&scenario, kernel)?.err();
        let validity = match &unfit {
            None => Validity::Valid,
            Some(Unfit::Unsupported(_)) => Validity::Unsupported,
            Some(Unfit::Invalid(_)) => Validity::Invalid,
        };
        let reason = unfit.map(|unfit| unfit.reason().to_string()).unwrap_or_default();
        Ok(Checked { path: path.clone(), kernel: Some(kernel.name.clone()), validity, reason })
    };
    kernels.iter().map(on).collect()
}
