//! `cargo xtask …`: parses the command line and prints; everything else lives in `lab`.

mod bench;
mod bisect;
mod build;
mod cache;
mod check;
mod ci;
mod complete;
mod crash;
mod diff;
mod doctor;
mod explain;
mod fuzz;
mod gdb;
mod judge;
mod list;
mod matrix;
mod merge;
mod minimize;
mod new;
mod report;
mod repro;
mod resolve;
mod run;
mod schema;
mod setup;
mod shell;
mod trace;

use anyhow::Result;
use clap::{Parser, Subcommand};
use lab::{bisect::Refused, host::interrupt, kernel::SpecError, repro::ReproError, scenario::ScenarioError};
use std::{
    env, fmt,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// ftrace-lab: does ftrace still work on the kernels that matter?
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", after_help = BEGIN)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

/// Where a newcomer begins, and what all verbs end with.
const BEGIN: &str = "Begin with:\n  \
    cargo xtask doctor                                what this machine has and lacks\n  \
    cargo xtask lab run --yes probes/eventfd-write    one scenario; the first time a kernel is built\n  \
    cargo xtask lab explain probes/eventfd-write      what that was, in words\n  \
    cargo xtask lab new first/mine                    one of your own\n\n\
    docs/tutorial.md goes on from there.\n\n\
    Exit codes, where a command names no others: 0 all passed (unsupported allowed), 1 at least one scenario failed, \
                          2 usage or an invalid file, 3 the lab itself could not do its work.";

#[derive(Subcommand)]
enum Verb {
    /// Run scenarios on kernels, and everything around it
    #[command(subcommand, after_help = BEGIN)]
    Lab(Box<Lab>),
    /// Show every prerequisite, its version, and whether it will do
    #[command(after_help = "Example:\n  cargo xtask doctor")]
    Doctor,
    /// Set everything up and run all tests: unit tests, then every scenario on the default kernel
    Test(ci::Test),
    Ci(ci::Ci),
    /// Measure what the lab promises about its speed
    Bench(bench::Bench),
    Fuzz(fuzz::Fuzz),
    Completions(complete::Completions),
}

#[derive(Subcommand)]
enum Lab {
    Run(run::Run),
    List(list::List),
    New(new::New),
    Explain(explain::Explain),
    Check(check::Check),
    Kernels(list::Kernels),
    Build(build::Build),
    Diff(diff::Diff),
    Bisect(Box<bisect::Bisect>),
    Judge(judge::Judge),
    Matrix(matrix::Matrix),
    Merge(merge::Merge),
    Report(report::Report),
    Repro(repro::Repro),
    Minimize(minimize::Minimize),
    Cache(cache::Show),
    Trace(trace::Print),
    Crash(crash::Crash),
    Shell(shell::Shell),
    Gdb(gdb::Gdb),
    Resolve(resolve::Resolve),
    Schema(schema::Schema),
}

impl Lab {
    fn run(self) -> Result<u8> {
        match self {
            Lab::Run(verb) => verb.run(),
            Lab::List(verb) => verb.run(),
            Lab::New(verb) => verb.run(),
            Lab::Explain(verb) => verb.run(),
            Lab::Check(verb) => verb.run(),
            Lab::Kernels(verb) => verb.run(),
            Lab::Build(verb) => verb.run(),
            Lab::Diff(verb) => verb.run(),
            Lab::Bisect(verb) => verb.run(),
            Lab::Matrix(verb) => verb.run(),
            Lab::Cache(verb) => verb.run(),
            Lab::Merge(verb) => verb.run(),
            Lab::Report(verb) => verb.run(),
            Lab::Repro(verb) => verb.run(),
            Lab::Minimize(verb) => verb.run(),
            Lab::Judge(verb) => verb.run(),
            Lab::Trace(verb) => verb.run(),
            Lab::Crash(verb) => verb.run(),
            Lab::Shell(verb) => verb.run(),
            Lab::Gdb(verb) => verb.run(),
            Lab::Resolve(verb) => verb.run(),
            Lab::Schema(verb) => verb.run(),
        }
    }
}

/// The documented exit codes.
pub(crate) mod exit {
    /// All passed, or there was nothing to pass.
    pub(crate) const SUCCESS: u8 = 0;
    /// At least one scenario failed.
    pub(crate) const FAILED: u8 = 1;
    /// Usage, or an invalid file.
    pub(crate) const INVALID: u8 = 2;
    /// The lab itself could not do its work.
    pub(crate) const LAB: u8 = 3;
    /// A reproducer failed, but not as it did.
    pub(crate) const OTHERWISE: u8 = 10;
    /// A reproducer passed.
    pub(crate) const PASSES: u8 = 11;
    /// A reproducer's kernel lacks what its scenario requires.
    pub(crate) const UNSUPPORTED: u8 = 12;
}

fn main() -> ExitCode {
    complete::answer();
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(code_of(&error))
        }
    }
}

fn run(arguments: Arguments) -> Result<u8> {
    interrupt::install()?;
    match arguments.verb {
        Verb::Lab(verb) => verb.run(),
        Verb::Doctor => doctor::run(),
        Verb::Test(verb) => verb.run(),
        Verb::Ci(verb) => verb.run(),
        Verb::Bench(verb) => verb.run(),
        Verb::Fuzz(verb) => verb.run(),
        Verb::Completions(verb) => verb.run(),
    }
}

/// The repository this xtask was built from.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// Where scenarios are found by name, and new ones written.
pub(crate) fn scenarios() -> PathBuf {
    env::var_os("FTRACE_LAB_SCENARIOS").map_or_else(|| root().join("scenarios"), PathBuf::from)
}

/// Where results go, and the newest of them are found.
pub(crate) fn results() -> PathBuf {
    env::var_os("FTRACE_LAB_RESULTS").map_or_else(|| root().join("results"), PathBuf::from)
}

/// A command line that asks for something that is not there.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl std::error::Error for Usage {}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which exit code an error means: a file or a name that the user got wrong, or the lab's own.
fn code_of(error: &anyhow::Error) -> u8 {
    let is_invalid = |cause: &(dyn std::error::Error + 'static)| {
        cause.is::<ScenarioError>()
            || cause.is::<SpecError>()
            || cause.is::<ReproError>()
            || cause.is::<Usage>()
            || cause.is::<Refused>()
    };
    // What is added to an error as its context is found by asking the error itself.
    let invalid = error.is::<Refused>() || error.chain().any(is_invalid);
    if invalid { exit::INVALID } else { exit::LAB }
}
