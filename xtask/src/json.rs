//! `--json`: what a verb found, as JSON for programs. docs/programs.md describes it.

use anyhow::Result;
use clap::Args;
use fs_err as fs;
use lab::results::{Results, Status};
use rustix::stdio::{dup2_stdout, stderr};
use schemars::JsonSchema;
use serde::Serialize;
use std::{
    io::{Write, stdout},
    os::fd::AsFd,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// Standard output, while what is printed for people goes to standard error.
static RESERVED: OnceLock<std::fs::File> = OnceLock::new();

/// `--json`, of the verbs that print tables.
#[derive(Args, Clone, Copy)]
pub(crate) struct Json {
    /// Print JSON, and what is for people on standard error
    #[arg(long = "json")]
    pub(crate) wanted: bool,
}

/// Keeps standard output for [`print`]: everything else goes to standard error from now on.
pub(crate) fn reserve_stdout() -> Result<()> {
    let reserved = stdout().as_fd().try_clone_to_owned()?;
    dup2_stdout(stderr())?;
    RESERVED.get_or_init(|| reserved.into());
    Ok(())
}

/// Prints what a verb found.
pub(crate) fn print(found: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(found)?;
    match RESERVED.get() {
        Some(mut reserved) => writeln!(reserved, "{text}")?,
        None => println!("{text}"),
    }
    Ok(())
}

/// The results of a run, without what its files have.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Ran<'a> {
    /// The directory with results.json, report.html and the files of each scenario.
    directory: PathBuf,
    /// Whether everything that was selected ran.
    complete: bool,
    seconds: f64,
    passed: usize,
    unsupported: usize,
    known_bug: usize,
    /// All others.
    not_passed: usize,
    scenarios: Vec<RanScenario<'a>>,
}

/// The result of a scenario on a kernel.
#[derive(Serialize, JsonSchema)]
struct RanScenario<'a> {
    name: &'a str,
    kernel: &'a str,
    /// The number of the repeat, from 1, if there are several.
    repeat: Option<u32>,
    /// The number of the try after a failure, from 1; null for the first try.
    retry: Option<u32>,
    status: Status,
    /// Why it did not pass.
    reason: &'a str,
    seconds: f64,
    /// The directory with its trace, kernel log, console and, of a failure, repro.yaml; there may be none.
    directory: Option<PathBuf>,
}

impl<'a> Ran<'a> {
    pub(crate) fn of(results: &'a Results, directory: &Path) -> Ran<'a> {
        let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
        let place = |below: &str| (!below.is_empty()).then(|| directory.join(below));
        let scenarios = results.scenarios.iter().map(|result| RanScenario {
            name: &result.name,
            kernel: &result.kernel,
            repeat: result.repeat,
            retry: result.retry,
            status: result.status,
            reason: &result.reason,
            seconds: result.seconds,
            directory: place(&result.directory),
        });
        let [passed, unsupported, known_bug] =
            [Status::Passed, Status::Unsupported, Status::KnownBug].map(|status| results.count(status));
        Ran {
            complete: results.run.complete,
            seconds: results.run.seconds,
            passed,
            unsupported,
            known_bug,
            not_passed: results.first_tries().filter(|result| !result.status.is_good()).count(),
            scenarios: scenarios.collect(),
            directory,
        }
    }
}
