//! `cargo xtask lab diff`

use crate::{
    Usage,
    coverage::measured_on,
    exit,
    json::{self, Json},
    root,
};
use anyhow::{Result, anyhow};
use clap::Args;
use lab::{
    coverage::{FileDifference, Measured, Share, SourceFiles, difference},
    results::{Changes, Pace, Results, ScenarioResult, compare, stored_results},
    words::printable,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Show what changed between two runs, or two kernels, scenario by scenario
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab diff results/20260101-030000-6.12 results/latest     what changed since then\n  \
    cargo xtask lab diff results/latest:6.1 results/latest:6.12         two kernels of one run\n  \
    cargo xtask lab diff --coverage A:6.1 B:6.12                        and which code only one of them ran\n\n\
    Exit codes: 0 no differences, 1 differences, 2 usage error or no such result.")]
pub(crate) struct Diff {
    /// Directory of a run; append :KERNEL to select one kernel's results
    a: String,
    /// The run to compare it with, in the same form
    b: String,
    /// Also show which functions and, of the same kernel, lines only one of them ran
    #[arg(long)]
    coverage: bool,
    /// Also show times that changed a lot
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// What changed from A to B.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Compared {
    #[serde(flatten)]
    changes: Changes,
    /// With --coverage, the files of which one ran more; null without.
    coverage: Option<Vec<FileDifference>>,
}

impl Diff {
    pub(crate) fn run(self) -> Result<u8> {
        let (a, b) = (Side::read(&self.a)?, Side::read(&self.b)?);
        let changes = compare(&a.results()?, &b.results()?);
        let coverage = self
            .coverage
            .then(|| Ok::<_, anyhow::Error>(difference(&a.measured()?, &b.measured()?)))
            .transpose()?;
        let same = changes.changes.is_empty() && coverage.as_ref().is_none_or(Vec::is_empty);
        let compared = Compared { changes, coverage };
        if self.json.wanted {
            json::print(&compared)?;
        } else {
            self.show(&compared);
        }
        Ok(if same { exit::SUCCESS } else { exit::FAILED })
    }

    fn show(&self, Compared { changes, coverage }: &Compared) {
        for change in &changes.changes {
            println!("{}", printable(change));
        }
        for Pace { name, a, b } in changes.paces.iter().filter(|_| self.verbose) {
            println!("{}: {a:.2} s in A, {b:.2} s in B", printable(name));
        }
        println!("{}", changes.summary());
        if let Some(differences) = coverage {
            differences.iter().for_each(show);
            if differences.is_empty() {
                println!("both ran the same code");
            }
        }
    }
}

fn show(difference: &FileDifference) {
    let FileDifference { file, lines: [a, b], functions, numbers } = difference;
    let percent = |share: &Share| format!("{} of {} lines ({} %)", share.ran, share.all, share.percent());
    println!("{file}: A ran {}, B {}", percent(a), percent(b));
    for (side, (functions, numbers)) in ["A", "B"].iter().zip(functions.iter().zip(numbers)) {
        if !functions.is_empty() {
            println!("  functions that only {side} ran: {}", functions.join(", "));
        }
        if !numbers.is_empty() {
            println!("  lines that only {side} ran: {}", ranges(numbers));
        }
    }
}

/// Formats sorted numbers: `1-3, 7`.
fn ranges(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|one, next| one + 1 == *next);
    let run = |run: &[u32]| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run.iter().map(u32::to_string).collect(),
    };
    runs.map(run).collect::<Vec<_>>().join(", ")
}

/// One of the two sides, as named on the command line.
struct Side {
    named: String,
    run: PathBuf,
    stored: Results,
    kernel: Option<String>,
}

impl Side {
    fn read(named: &str) -> Result<Side> {
        let (path, kernel) = match named.rsplit_once(':') {
            Some((path, kernel)) if !Path::new(named).exists() => (path, Some(kernel.to_owned())),
            _ => (named, None),
        };
        let stored = stored_results(Path::new(path)).map_err(|error| Usage(format!("{error:#}")))?;
        Ok(Side { named: named.to_owned(), run: path.into(), stored, kernel })
    }

    /// Returns the coverage of its kernel.
    fn measured(&self) -> Result<Measured> {
        let kernel = match (&self.kernel, &self.stored.kernels[..]) {
            (Some(kernel), _) => kernel,
            (None, [only]) => &only.name,
            (None, _) => {
                let error = format!("`{0}` has several kernels: append one, such as `{0}:6.12`", self.named);
                return Err(anyhow!(Usage(error)));
            }
        };
        Ok(measured_on(kernel, &self.run, &SourceFiles::of_tracing(root())?)?.0)
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
