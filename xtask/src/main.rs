//! `cargo xtask …`: parses the command line and prints; everything else lives in `lab`.

mod affected;
mod bench;
mod bisect;
mod build;
mod cache;
mod check;
mod ci;
mod complete;
mod coverage;
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
mod mutants;
mod new;
mod report;
mod repro;
mod resolve;
mod run;
mod schema;
mod setup;
mod shell;
mod trace;
mod trust;

use anyhow::{Result, anyhow};
use clap::{Parser, Subcommand};
use lab::{
    bisect::BisectError,
    host::{interrupt, workflow::StoppedCommands},
    kernel::SpecError,
    machine::boot_if_child,
    mutants::MutantError,
    reproducer::ReproError,
    scenario::ScenarioError,
    words::printable,
};
use std::{
    env, fmt, panic,
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

/// First commands for a new user, and the common exit codes.
const BEGIN: &str = "Start here:\n  \
    cargo xtask doctor                                check the prerequisites of this host\n  \
    cargo xtask lab run --yes probes/eventfd-write    run one scenario; the first run builds a kernel\n  \
    cargo xtask lab explain probes/eventfd-write      describe what it does\n  \
    cargo xtask lab new first/mine                    create your own\n\n\
    docs/tutorial.md continues from there.\n\n\
    Exit codes, unless a command lists its own: 0 all passed (unsupported allowed), 1 at least one scenario failed, \
                          2 usage error or invalid file, 3 the lab itself failed.";

#[derive(Subcommand)]
enum Verb {
    /// Run scenarios on kernels; inspect, reproduce and bisect the results
    #[command(subcommand, after_help = BEGIN)]
    Lab(Box<Lab>),
    /// Show every prerequisite, its version, and whether it is sufficient
    #[command(after_help = "Example:\n  cargo xtask doctor")]
    Doctor,
    /// Build everything and run all tests: unit tests, then every scenario on the default kernel
    Test(ci::Test),
    Ci(ci::Ci),
    /// Run one of the lab's benchmarks
    Bench(bench::Bench),
    Fuzz(fuzz::Fuzz),
    Mutants(mutants::Mutants),
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
    Coverage(coverage::Coverage),
    Affected(affected::Show),
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

impl Verb {
    /// Returns whether its output is data for a program, with nothing of a guest in it.
    fn prints_data(&self) -> bool {
        match self {
            Verb::Lab(verb) => {
                matches!(**verb, Lab::List(_) | Lab::Kernels(_) | Lab::Matrix(_) | Lab::Schema(_))
            }
            Verb::Completions(_) | Verb::Bench(_) => true,
            Verb::Fuzz(verb) => verb.list,
            Verb::Doctor | Verb::Test(_) | Verb::Ci(_) | Verb::Mutants(_) => false,
        }
    }
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
            Lab::Coverage(verb) => verb.run(),
            Lab::Affected(verb) => verb.run(),
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
    /// All passed, or there was nothing to run.
    pub(crate) const SUCCESS: u8 = 0;
    /// At least one scenario failed.
    pub(crate) const FAILED: u8 = 1;
    /// Usage error or invalid file.
    pub(crate) const INVALID: u8 = 2;
    /// The lab itself failed.
    pub(crate) const LAB: u8 = 3;
    /// A reproducer failed, but differently.
    pub(crate) const DIFFERENT_FAILURE: u8 = 10;
    /// A reproducer passed.
    pub(crate) const PASSES: u8 = 11;
    /// A reproducer's kernel lacks what its scenario requires.
    pub(crate) const UNSUPPORTED: u8 = 12;
}

fn main() -> ExitCode {
    boot_if_child();
    end_quietly_when_nobody_reads();
    complete::answer();
    let arguments = Arguments::parse();
    // Dropped last, after the error is printed.
    let stopped = if arguments.verb.prints_data() { Ok(None) } else { StoppedCommands::begin() };
    let ran = match &stopped {
        Ok(_) => run(arguments),
        Err(error) => Err(anyhow!("cannot stop the commands of the workflow: {error}")),
    };
    match ran {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {}", printable(format!("{error:#}")));
            ExitCode::from(code_of(&error))
        }
    }
}

/// `println!` panics when the reader of a pipe is gone, as in `lab list | head`. That is no bug to report.
fn end_quietly_when_nobody_reads() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        let said = panic.payload_as_str().unwrap_or_default();
        if !said.starts_with("failed printing to stdout: Broken pipe") {
            report(panic);
        }
    }));
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
        Verb::Mutants(verb) => verb.run(),
        Verb::Completions(verb) => verb.run(),
    }
}

/// The repository this xtask was built from.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// The directory in which scenarios are looked up by name and new ones are created.
pub(crate) fn scenarios() -> PathBuf {
    env::var_os("FTRACE_LAB_SCENARIOS").map_or_else(|| root().join("scenarios"), PathBuf::from)
}

/// The directory of results, including the link `latest`.
pub(crate) fn results() -> PathBuf {
    env::var_os("FTRACE_LAB_RESULTS").map_or_else(|| root().join("results"), PathBuf::from)
}

/// A usage error, such as the name of something that does not exist.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl std::error::Error for Usage {}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the exit code for an error: `INVALID` if a file or a name is wrong, otherwise `LAB`.
fn code_of(error: &anyhow::Error) -> u8 {
    let is_invalid = |cause: &(dyn std::error::Error + 'static)| {
        cause.is::<ScenarioError>()
            || cause.is::<SpecError>()
            || cause.is::<ReproError>()
            || cause.is::<MutantError>()
            || cause.is::<Usage>()
            || cause.is::<BisectError>()
    };
    // A type that was attached as context is found only by `error.is`, not in the chain.
    let invalid = error.is::<BisectError>() || error.chain().any(is_invalid);
    if invalid { exit::INVALID } else { exit::LAB }
}
