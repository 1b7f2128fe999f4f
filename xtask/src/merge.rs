//! `cargo xtask lab merge`

use crate::{
    Usage, complete, exit,
    json::{self, Json, Ran},
    results, root,
};
use anyhow::{Context, Result};
use clap::Args;
use fs_err::File;
use lab::{
    Lab, kernel,
    report::{Page, Terminal, markdown, summary, write_forms},
    reproducer::FILE,
    results::{
        Delta, Gap, MergeError, Merged, Results, ScenarioResult, Status, last_tries, merge, put, put_new,
        runs_below, since, stored_results,
    },
    words::{called, printable, shell_words},
};
use std::{
    io::Write,
    path::{Path, PathBuf},
};

/// The file of a report that the next one is compared with.
pub(crate) const REPORT: &str = "results.json";

/// Merge several runs, or all parts of a split, into one report
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    cargo xtask lab merge one/results two/results            the parts that two machines ran\n  \
    cargo xtask lab merge parts --into report --last last    and compare with the last report\n\n\
    Exit codes: 0 no failures, 1 a scenario failed, or passed in --last and did not run,\n\
    2 usage error, or runs that cannot be merged, 3 parts are missing or the lab itself failed.")]
pub(crate) struct Merge {
    /// Directories of runs, or directories that contain them
    #[arg(required = true, value_name = "RESULT")]
    results: Vec<PathBuf>,
    /// Output directory: an empty one, or that of --last, which is replaced [default: a new one in
    /// results/]
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Require results for this kernel, as for `lab run` (repeatable)
    #[arg(long = "kernel", value_name = "NAME", add = complete::kernels())]
    kernels: Vec<String>,
    /// Compare with this report: what is new, what is fixed, and what no longer runs
    #[arg(long, value_name = "RESULT")]
    last: Option<PathBuf>,
    /// Append the report to this file, as Markdown
    #[arg(long, value_name = "FILE", env = "GITHUB_STEP_SUMMARY")]
    summary: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) json: Json,
}

impl Merge {
    pub(crate) fn run(self) -> Result<u8> {
        let kernels = kernel::choose(root(), &self.kernels)?;
        // Before anything is written: a missing report must not pass for one without failures.
        let last = self.last.as_deref().map(stored_results).transpose();
        let last = last.map_err(|error| Usage(format!("{error:#}")))?;
        let runs = runs_below(&self.results).map_err(|error| Usage(format!("{error:#}")))?;
        let (parts, dropped) = last_tries(runs);
        dropped.iter().for_each(|line| println!("{}", printable(line)));
        let merged = merge(&parts, &kernels).map_err(|error: MergeError| Usage(error.to_string()))?;
        let lab = Lab::open(root())?;
        let forms =
            |results: &Results, run: &Path, target: &Path| write_forms(results, run, target, Some(&lab));
        let directory = match &self.into {
            Some(into) => put(&merged, &parts, into, self.last.as_deref(), &forms).map(|()| into.clone())?,
            None => put_new(&merged, &parts, &results(), &forms)?,
        };
        let since = last.map(|last| since(&last, &merged.results));
        self.tell(&merged, &directory, since.as_ref())?;
        if self.json.wanted {
            json::print(&Ran::of(&merged.results, &directory))?;
        }
        Ok(code(&merged, since.as_ref()))
    }

    /// Returns the command that runs what is missing, with its results where they are merged from.
    fn run_again(&self, arguments: &str) -> String {
        let into = self.results.first().filter(|path| !path.join(REPORT).is_file());
        let into = into.and_then(|path| path.to_str()).map(|path| shell_words(["--results", path]));
        let words = [called("cargo xtask lab run").into_owned()].into_iter().chain(into);
        format!("{} {arguments}", words.collect::<Vec<_>>().join(" "))
    }

    fn tell(&self, merged: &Merged, directory: &Path, since: Option<&Delta>) -> Result<()> {
        let terminal = Terminal::new(false);
        for result in merged.results.scenarios.iter().filter(|result| !result.status.is_good()) {
            print!("{}", terminal.result(result, directory));
        }
        for (name, kernel) in since.iter().flat_map(|since| &since.regressed) {
            println!("{}", printable(format!("regressed: {name} on {kernel}")));
        }
        for (name, kernel) in since.iter().flat_map(|since| &since.gone) {
            println!("{}", printable(format!("passed last time, did not run now: {name} on {kernel}")));
        }
        for Gap { what, again } in &merged.gaps {
            println!("incomplete: {}", printable(what));
            if let Some(again) = again {
                println!("  run it: {}", printable(self.run_again(again)));
            }
        }
        println!("{}\nresults: {}", summary(&merged.results), directory.display());
        let reproducer = |result: &ScenarioResult| reproducer(result, directory);
        let page = Page { results: &merged.results, gaps: &merged.gaps, since, reproducer: &reproducer };
        append_summary(self.summary.as_deref(), &page)
    }
}

/// Returns whether a directory has a report, and says so if not: there is none before the first run.
pub(crate) fn is_report(last: &Path) -> bool {
    let is_there = last.join(REPORT).is_file();
    if !is_there {
        eprintln!("no report in `{}` yet: nothing to compare with", last.display());
    }
    is_there
}

/// Appends a page to the summary, if there is one.
pub(crate) fn append_summary(summary: Option<&Path>, page: &Page<'_>) -> Result<()> {
    let Some(path) = summary.filter(|path| !path.as_os_str().is_empty()) else { return Ok(()) };
    let file = File::options().create(true).append(true).open(path);
    let written = file.and_then(|mut file| file.write_all(markdown(page).as_bytes()));
    written.context("cannot write the summary")
}

/// Returns the command that runs a scenario again, from its `repro.yaml` if there is one.
pub(crate) fn reproducer(result: &ScenarioResult, directory: &Path) -> String {
    let file = directory.join(&result.directory).join(FILE);
    if !result.directory.is_empty() && file.is_file() {
        return format!("{} {}", called("cargo xtask lab repro"), file.display());
    }
    let name = regex::escape(&result.name).replace("\\-", "-");
    format!("{} --kernel {} --filter '^{name}$'", called("cargo xtask lab run"), result.kernel)
}

/// A failure fails every report until it is fixed, or listed as a known bug.
fn code(merged: &Merged, since: Option<&Delta>) -> u8 {
    let mut statuses = merged.results.scenarios.iter().map(|result| result.status);
    if !merged.gaps.is_empty() || statuses.clone().any(|status| status == Status::LabError) {
        return exit::LAB;
    }
    let failed = statuses.any(|status| !status.is_good());
    let gone = since.is_some_and(|since| !since.gone.is_empty());
    if failed || gone { exit::FAILED } else { exit::SUCCESS }
}
