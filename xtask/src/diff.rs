//! `cargo xtask lab diff`

use crate::{Usage, exit};
use anyhow::{Result, anyhow};
use clap::Args;
use lab::{
    results::{Results, ScenarioResult, compare, stored_results},
    words::printable,
};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Show what changed between two runs, or two kernels, scenario by scenario
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab diff results/20260101-030000-6.12 results/latest     what changed since then\n  \
    cargo xtask lab diff results/latest:6.1 results/latest:6.12         two kernels of one run\n\n\
    Exit codes: 0 no differences, 1 differences, 2 usage error or no such result.")]
pub(crate) struct Diff {
    /// Directory of a run; append :KERNEL to select one kernel's results
    a: String,
    /// The run to compare it with, in the same form
    b: String,
    /// Also show times that changed a lot
    #[arg(long, short)]
    verbose: bool,
}

impl Diff {
    pub(crate) fn run(self) -> Result<u8> {
        let (a, b) = (Side::read(&self.a)?, Side::read(&self.b)?);
        let changes = compare(&a.results()?, &b.results()?);
        for change in &changes.changes {
            println!("{}", printable(change));
        }
        for (name, a, b) in changes.paces.iter().filter(|_| self.verbose) {
            println!("{}: {a:.2} s in A, {b:.2} s in B", printable(name));
        }
        println!("{}", changes.summary());
        Ok(if changes.changes.is_empty() { exit::SUCCESS } else { exit::FAILED })
    }
}

/// One of the two sides, as named on the command line.
struct Side {
    named: String,
    stored: Results,
    kernel: Option<String>,
}

impl Side {
    fn read(named: &str) -> Result<Side> {
        let (path, kernel) = match named.rsplit_once(':') {
            Some((path, kernel)) if !Path::new(named).exists() => (path, Some(kernel.to_owned())),
            _ => (named, None),
        };
        let stored = stored_results(&PathBuf::from(path)).map_err(|error| Usage(format!("{error:#}")))?;
        Ok(Side { named: named.to_owned(), stored, kernel })
    }

    fn results(&self) -> Result<Vec<&ScenarioResult>> {
        let all = || self.stored.scenarios.iter();
        let Some(kernel) = &self.kernel else { return Ok(all().collect()) };
        let found: Vec<_> = all().filter(|result| result.kernel == *kernel).collect();
        if found.is_empty() {
            let kernels: BTreeSet<_> = all().map(|result| result.kernel.as_str()).collect();
            let kernels = kernels.into_iter().collect::<Vec<_>>().join(", ");
            return Err(anyhow!(Usage(format!(
                "no results for `{}`; kernels of this run: {kernels}",
                self.named
            ))));
        }
        Ok(found)
    }
}
