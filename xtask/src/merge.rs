//! `cargo xtask lab merge`

use crate::{Usage, complete, exit, results, root};
use anyhow::{Context, Result};
use clap::Args;
use lab::{
    kernel,
    report::{
        Merged, Page, Refused, ScenarioResult, SinceLast, Terminal, markdown, merge, point_latest, put,
        put_new, runs_below, since, summary,
    },
    repro::FILE,
    run::times::stored_results,
    verdict::Status,
};
use std::{
    fs::OpenOptions,
    io::Write,
    path::{Path, PathBuf},
};

/// Make one report of several runs, or of all parts of a split
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab merge one/results two/results            the parts that two machines ran\n  \
    cargo xtask lab merge parts --into report --last last    and compared with the last report\n\n\
    Exit codes: 0 all is well, 1 a scenario failed (with --last: one that passed then, or is new),\n\
    2 usage, or runs that cannot be one, 3 parts are missing or the lab could not do its work.")]
pub(crate) struct Merge {
    /// Runs, or directories that hold them
    #[arg(required = true, value_name = "RESULT")]
    results: Vec<PathBuf>,
    /// Where the report goes: an empty directory, or that of --last, which it takes the place of
    /// [default: a new one in results/]
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Kernels that have to be there, as `lab run` takes them; may be given several times
    #[arg(long = "kernel", value_name = "NAME", add = complete::kernels())]
    kernels: Vec<String>,
    /// The report to compare with: what failed there, too, is no failure now
    #[arg(long, value_name = "RESULT")]
    last: Option<PathBuf>,
    /// Append the report to this file, as Markdown
    #[arg(long, value_name = "FILE", env = "GITHUB_STEP_SUMMARY")]
    summary: Option<PathBuf>,
}

impl Merge {
    pub(crate) fn run(self) -> Result<u8> {
        let kernels = kernel::choose(root(), &self.kernels)?;
        // Before anything is written: a report that is not there must not pass for one without failures.
        let last = self.last.as_deref().map(stored_results).transpose();
        let last = last.map_err(|error| Usage(format!("{error:#}")))?;
        let parts = runs_below(&self.results).map_err(|error| Usage(format!("{error:#}")))?;
        let merged = merge(&parts, &kernels).map_err(|error: Refused| Usage(error.to_string()))?;
        let directory = match &self.into {
            Some(into) => put(&merged, &parts, into, self.last.as_deref()).map(|()| into.clone())?,
            None => {
                let directory = put_new(&merged, &parts, &results())?;
                point_latest(&results(), &directory)?;
                directory
            }
        };
        let since = last.map(|last| (since(&last, &merged.results), last));
        self.tell(&merged, &directory, since.as_ref().map(|(since, _)| since))?;
        let last = since.map(|(_, last)| last);
        Ok(code(&merged, last.as_ref()))
    }

    fn tell(&self, merged: &Merged, directory: &Path, since: Option<&SinceLast>) -> Result<()> {
        let terminal = Terminal::new(false);
        for result in merged.results.scenarios.iter().filter(|result| !result.status.is_good()) {
            print!("{}", terminal.result(result, directory));
        }
        for (name, kernel) in since.iter().flat_map(|since| &since.regressed) {
            println!("passed the last time, and not now: {name} on {kernel}");
        }
        for (name, kernel) in since.iter().flat_map(|since| &since.gone) {
            println!("passed the last time, and did not run now: {name} on {kernel}");
        }
        for lacking in &merged.lacking {
            println!("not the whole: {lacking}");
        }
        println!("{}\nresults: {}", summary(&merged.results), directory.display());
        let Some(path) = self.summary.as_ref().filter(|path| !path.as_os_str().is_empty()) else {
            return Ok(());
        };
        let reproducer = |result: &ScenarioResult| reproducer(result, directory);
        let page = markdown(&Page {
            results: &merged.results,
            lacking: &merged.lacking,
            since,
            reproducer: &reproducer,
        });
        let file = OpenOptions::new().create(true).append(true).open(path);
        let written = file.and_then(|mut file| file.write_all(page.as_bytes()));
        written.with_context(|| format!("cannot write the summary `{}`", path.display()))
    }
}

/// The command that runs a scenario again: from the file that holds all it needs, where there is one.
fn reproducer(result: &ScenarioResult, directory: &Path) -> String {
    let file = directory.join(&result.directory).join(FILE);
    if !result.directory.is_empty() && file.is_file() {
        return format!("cargo xtask lab repro {}", file.display());
    }
    let name = regex::escape(&result.name).replace("\\-", "-");
    format!("cargo xtask lab run --kernel {} --filter '^{name}$'", result.kernel)
}

fn code(merged: &Merged, last: Option<&lab::report::Results>) -> u8 {
    let failed = merged.results.scenarios.iter().filter(|result| !result.status.is_good());
    // What did not pass the last time either is known.
    let known = |result: &ScenarioResult| {
        last.is_some_and(|last| {
            let then =
                last.scenarios.iter().filter(|then| then.name == result.name && then.kernel == result.kernel);
            then.clone().next().is_some() && !then.clone().all(|then| then.status == Status::Passed)
        })
    };
    if !merged.lacking.is_empty() || merged.results.count(Status::LabError) > 0 {
        exit::LAB
    } else if failed.into_iter().any(|result| !known(result)) {
        exit::FAILED
    } else {
        exit::SUCCESS
    }
}
