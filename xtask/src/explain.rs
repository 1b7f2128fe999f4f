//! `cargo xtask lab explain`

use crate::{complete, exit, run::selected, setup::Setup};
use anyhow::Result;
use clap::Args;
use lab::{explain::explain, host::prerequisites::Need, kernel};
use regex::Regex;
use std::path::PathBuf;

/// Describe what a scenario arms, does and expects on a kernel, without running it
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab explain probes/paths                   each path, with its fetch argument\n  \
    cargo xtask lab explain probes/fprobe --kernel 6.1     why is it unsupported there?\n  \
    cargo xtask lab explain ipmodify/conflicts --filter kprobe    some cells of a matrix")]
pub(crate) struct Explain {
    /// Scenario files, directories, or names such as probes/paths
    #[arg(required = true, add = complete::scenarios())]
    paths: Vec<PathBuf>,
    /// Describe it for this kernel of kernels/*.yaml, which is built if necessary [default: 6.12]
    #[arg(long, value_name = "NAME", add = complete::kernels())]
    kernel: Option<String>,
    /// Describe only scenarios whose name matches this regular expression
    #[arg(long, value_name = "RE")]
    filter: Option<Regex>,
    #[command(flatten)]
    setup: Setup,
}

impl Explain {
    pub(crate) fn run(self) -> Result<u8> {
        let scenarios = selected(&self.paths, self.filter.as_ref())?;
        let lab = self.setup.ensure(Need::Run)?;
        let name = self.kernel.as_deref().unwrap_or(kernel::DEFAULT);
        let kernel = kernel::build(&lab, name, None)?;
        for (index, (found, scenario)) in scenarios.iter().enumerate() {
            let gap = if index == 0 { "" } else { "\n" };
            print!("{gap}{}", explain(&found.name, scenario, &kernel)?);
        }
        Ok(exit::SUCCESS)
    }
}
