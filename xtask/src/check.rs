//! `cargo xtask lab check`

use crate::{
    complete, exit,
    init::prepare_results,
    place::{default_kernels, project, results_of},
    root, scenarios,
    setup::Setup,
};
use anyhow::Result;
use clap::Args;
use lab::{
    fit::{self, Unfit},
    guest,
    host::prerequisites::Need,
    kernel::{self, Kernel},
    scenario::{self, Scenario},
};
use std::path::PathBuf;

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
    setup: Setup,
}

impl Check {
    pub(crate) fn run(self) -> Result<u8> {
        let found = scenario::find(&scenarios(), &self.paths)?;
        // The project's file was read to find the scenarios; what is left is whether its kernels exist.
        default_kernels()?;
        project().map_or(Ok(()), |project| prepare_results(&results_of(project)))?;
        let kernels = self.kernels()?;
        let (mut valid, mut invalid, mut unsupported) = (0, 0, 0);
        for found in &found {
            let scenario = match Scenario::load(&found.path) {
                Ok(scenario) => scenario,
                Err(error) => {
                    invalid += 1;
                    println!("{error}\n");
                    continue;
                }
            };
            let path = found.path.display();
            if let Err(error) = guest::check_sources(&scenario) {
                invalid += 1;
                println!("{path}: {error:#}\n");
                continue;
            }
            if kernels.is_empty() {
                valid += 1;
                println!("{path}: valid");
            }
            for kernel in &kernels {
                let unfit = fit::fit(&scenario, kernel)?.err();
                let (count, said) = match &unfit {
                    None => (&mut valid, "valid"),
                    Some(Unfit::Unsupported(_)) => (&mut unsupported, "unsupported"),
                    Some(Unfit::Invalid(_)) => (&mut invalid, "invalid"),
                };
                *count += 1;
                let why = unfit.map(|unfit| format!(": {}", unfit.reason())).unwrap_or_default();
                println!("{path} on {}: {said}{why}", kernel.name);
            }
        }
        let unsupported =
            if kernels.is_empty() { String::new() } else { format!(", {unsupported} unsupported") };
        println!("{valid} valid, {invalid} invalid{unsupported}");
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
