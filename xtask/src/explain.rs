//! `cargo xtask lab explain`

use crate::{complete, exit, root, run::selected, setup::Setup};
use anyhow::Result;
use clap::Args;
use lab::{explain::explain, host::prerequisites::Need, kernel, progress::Progress};
use regex::Regex;
use std::path::PathBuf;

/// Say in words what a scenario arms, does and expects on a kernel; nothing is run
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab explain probes/paths                   each path, and what the kernel fetches for it\n  \
    cargo xtask lab explain probes/fprobe --kernel 6.1     and why it is unsupported there\n  \
    cargo xtask lab explain ipmodify/conflicts --filter kprobe    some cells of a matrix")]
pub(crate) struct Explain {
    /// Scenario files, directories of them, or names such as probes/paths
    #[arg(required = true, add = complete::scenarios())]
    paths: Vec<PathBuf>,
    /// The kernel of kernels/*.yaml that it is explained for; it is built if it is not yet [default: 6.12]
    #[arg(long, value_name = "NAME", add = complete::kernels())]
    kernel: Option<String>,
    /// Only scenarios whose name matches this regular expression
    #[arg(long, value_name = "RE")]
    filter: Option<Regex>,
    #[command(flatten)]
    setup: Setup,
}

impl Explain {
    pub(crate) fn run(self) -> Result<u8> {
        let progress = Progress::new();
        let scenarios = selected(&self.paths, self.filter.as_ref())?;
        let cache = self.setup.ensure(Need::Run, &progress)?;
        let name = self.kernel.as_deref().unwrap_or(kernel::DEFAULT);
        let kernel = kernel::build(&cache, root(), name, None, &progress)?;
        for (index, (found, scenario)) in scenarios.iter().enumerate() {
            let gap = if index == 0 { "" } else { "\n" };
            print!("{gap}{}", explain(&found.name, scenario, &kernel)?);
        }
        Ok(exit::SUCCESS)
    }
}
