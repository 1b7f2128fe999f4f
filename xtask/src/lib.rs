//! The command line, of the checkout as `cargo xtask …` and installed as `ftrace-lab …`: parses it and prints;
//! everything else lives in `lab`.

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
mod init;
mod json;
mod judge;
mod list;
mod matrix;
mod mcp;
mod merge;
mod minimize;
mod module;
mod mutants;
mod new;
mod own;
mod place;
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
use clap::{Arg, Command, CommandFactory, FromArgMatches, Parser, Subcommand, builder::StyledStr};
pub use lab::Checkout;
use lab::{
    bisect::BisectError,
    host::{interrupt, workflow::StoppedCommands},
    init::Subject,
    kernel::SpecError,
    machine::boot_if_child,
    mutants::MutantError,
    reproducer::ReproError,
    scenario::{Project, ScenarioError},
    words::{called, printable, set_installed},
};
use std::{env, ffi::OsString, fmt, panic, process::ExitCode};

/// ftrace-lab: does ftrace still work on the kernels that matter?
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", after_help = begin())]
struct OfCheckout {
    #[command(subcommand)]
    verb: Verb,
}

/// Does ftrace still work on the kernels that matter?
#[derive(Parser)]
#[command(name = "ftrace-lab", version, after_help = EXIT_CODES)]
struct Installed {
    #[command(subcommand)]
    verb: InstalledVerb,
}

/// First commands for a new user.
const BEGIN: &str = "Start here:\n  \
    cargo xtask doctor                                check the prerequisites of this host\n  \
    cargo xtask lab run --yes probes/eventfd-write    run one scenario; the first run builds a kernel\n  \
    cargo xtask lab explain probes/eventfd-write      describe what it does\n  \
    cargo xtask lab new first/mine                    create your own\n\n\
    docs/tutorial.md continues from there.";

const EXIT_CODES: &str = "Exit codes, unless a command lists its own: 0 all passed (unsupported allowed), 1 at least one \
                          scenario failed, 2 usage error or invalid file, 3 the lab itself failed.";

fn begin() -> String {
    format!("{BEGIN}\n\n{EXIT_CODES}")
}

/// What one is likely to want in the current directory.
fn likely() -> &'static str {
    let here = env::current_dir().unwrap_or_default();
    if Project::above(&here).is_ok_and(|project| project.is_some()) {
        return "This is a project:\n  \
            ftrace-lab run          run its scenarios\n  \
            ftrace-lab check        check its files without a kernel\n  \
            ftrace-lab new NAME     create a scenario";
    }
    let is_built = ["Kbuild", "Makefile"].iter().any(|name| here.join(name).is_file());
    match Subject::of(&here) {
        Ok(Subject::KernelTree) => {
            "This is a kernel tree:\n  \
            ftrace-lab run --yes --kernel-tree . probes    build it, and run scenarios on it\n  \
            ftrace-lab init                                keep scenarios of your own in it"
        }
        Ok(Subject::Modules(_)) if is_built => {
            "There is a module here:\n  \
            ftrace-lab module .     check it on several kernels\n  \
            ftrace-lab init         write ftrace-lab.yaml and a first scenario"
        }
        _ => {
            "Start here:\n  \
            ftrace-lab doctor                                    check the prerequisites of this host\n  \
            ftrace-lab init                                      test the module or program of a directory\n  \
            ftrace-lab run --kernel debian-13 probes/eventfd-write    run one of the ready scenarios"
        }
    }
}

#[derive(Subcommand)]
enum Verb {
    /// Run scenarios on kernels; inspect, reproduce and bisect the results
    #[command(subcommand, after_help = begin())]
    Lab(LabOfCheckout),
    Doctor(doctor::Doctor),
    /// Build everything and run all tests: unit tests, then every scenario on the default kernel
    Test(own::Test),
    Ci(own::Ci),
    /// Run one of the lab's benchmarks
    Bench(bench::Bench),
    Fuzz(fuzz::Fuzz),
    Mutants(mutants::Mutants),
    Completions(complete::Completions),
}

#[derive(Subcommand)]
enum InstalledVerb {
    #[command(flatten)]
    Lab(Box<Lab>),
    Doctor(doctor::Doctor),
    Completions(complete::Completions),
}

#[derive(Subcommand)]
enum LabOfCheckout {
    #[command(flatten)]
    Lab(Box<Lab>),
    Schema(schema::Schema),
}

#[derive(Subcommand)]
enum Lab {
    Run(run::Run),
    List(list::List),
    Init(init::Init),
    New(new::New),
    Explain(explain::Explain),
    Check(check::Check),
    Kernels(list::Kernels),
    Build(build::Build),
    Diff(diff::Diff),
    Bisect(Box<bisect::Bisect>),
    Ci(Box<ci::Ci>),
    Judge(judge::Judge),
    Coverage(coverage::Coverage),
    Affected(affected::Show),
    Module(module::Module),
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
    Mcp(mcp::Mcp),
}

impl Verb {
    /// Returns whether its output is data for a program, with nothing of a guest in it.
    fn prints_data(&self) -> bool {
        match self {
            Verb::Lab(verb) => match verb {
                LabOfCheckout::Lab(verb) => verb.prints_data(),
                LabOfCheckout::Schema(_) => true,
            },
            Verb::Completions(_) | Verb::Bench(_) => true,
            Verb::Fuzz(verb) => verb.list,
            Verb::Doctor(_) | Verb::Test(_) | Verb::Ci(_) | Verb::Mutants(_) => false,
        }
    }

    fn json(&self) -> bool {
        match self {
            Verb::Lab(LabOfCheckout::Lab(verb)) => verb.json(),
            Verb::Doctor(verb) => verb.json.wanted,
            _ => false,
        }
    }

    fn run(self) -> Result<u8> {
        match self {
            Verb::Lab(verb) => match verb {
                LabOfCheckout::Lab(verb) => verb.run(),
                LabOfCheckout::Schema(verb) => verb.run(),
            },
            Verb::Doctor(verb) => verb.run(),
            Verb::Test(verb) => verb.run(),
            Verb::Ci(verb) => verb.run(),
            Verb::Bench(verb) => verb.run(),
            Verb::Fuzz(verb) => verb.run(),
            Verb::Mutants(verb) => verb.run(),
            Verb::Completions(verb) => verb.run(),
        }
    }
}

impl InstalledVerb {
    fn prints_data(&self) -> bool {
        match self {
            InstalledVerb::Lab(verb) => verb.prints_data(),
            InstalledVerb::Doctor(_) => false,
            InstalledVerb::Completions(_) => true,
        }
    }

    fn json(&self) -> bool {
        match self {
            InstalledVerb::Lab(verb) => verb.json(),
            InstalledVerb::Doctor(verb) => verb.json.wanted,
            InstalledVerb::Completions(_) => false,
        }
    }

    fn run(self) -> Result<u8> {
        match self {
            InstalledVerb::Lab(verb) => verb.run(),
            InstalledVerb::Doctor(verb) => verb.run(),
            InstalledVerb::Completions(verb) => verb.run(),
        }
    }
}

impl Lab {
    fn prints_data(&self) -> bool {
        matches!(self, Lab::List(_) | Lab::Kernels(_) | Lab::Matrix(_) | Lab::Mcp(_))
    }

    /// Returns whether `--json` is among its options.
    fn json(&self) -> bool {
        let json = match self {
            Lab::Run(verb) => verb.json,
            Lab::List(verb) => verb.json,
            Lab::Check(verb) => verb.json,
            Lab::Kernels(verb) => verb.json,
            Lab::Diff(verb) => verb.json,
            Lab::Ci(verb) => verb.run.json,
            Lab::Judge(verb) => verb.json,
            Lab::Coverage(verb) => verb.json,
            Lab::Affected(verb) => verb.json,
            Lab::Module(verb) => verb.json,
            Lab::Merge(verb) => verb.json,
            Lab::Cache(verb) => verb.json,
            Lab::Resolve(verb) => verb.json,
            _ => return false,
        };
        json.wanted
    }

    fn run(self) -> Result<u8> {
        match self {
            Lab::Run(verb) => verb.run(),
            Lab::List(verb) => verb.run(),
            Lab::Init(verb) => verb.run(),
            Lab::New(verb) => verb.run(),
            Lab::Explain(verb) => verb.run(),
            Lab::Check(verb) => verb.run(),
            Lab::Kernels(verb) => verb.run(),
            Lab::Build(verb) => verb.run(),
            Lab::Diff(verb) => verb.run(),
            Lab::Bisect(verb) => verb.run(),
            Lab::Ci(verb) => verb.run(),
            Lab::Module(verb) => verb.run(),
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
            Lab::Mcp(verb) => verb.run(),
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

/// Runs `cargo xtask …` in the checkout that it was built from.
pub fn of_checkout() -> ExitCode {
    boot_if_child();
    complete::answer("xtask", OfCheckout::command);
    let arguments = OfCheckout::parse();
    let (prints_data, json) = (arguments.verb.prints_data(), arguments.verb.json());
    ended(prints_data, json, || arguments.verb.run())
}

/// Runs `ftrace-lab …`, whose checkout is in the program.
pub fn installed(checkout: &Checkout) -> ExitCode {
    boot_if_child();
    set_installed();
    let command = || as_called(Installed::command());
    if complete::is_asked() && place::lay_out_checkout(checkout).is_ok() {
        complete::answer("ftrace-lab", command);
    }
    // Looks through the directory, so only for the help that shows it.
    let words: Vec<_> = env::args_os().skip(1).collect();
    let is_help = |word: &OsString| ["help", "--help", "-h"].iter().any(|help| word == help);
    let command = match words.as_slice() {
        [] => command().before_help(likely()),
        [word] if is_help(word) => command().before_help(likely()),
        _ => command(),
    };
    let matches = command.get_matches();
    let arguments = Installed::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let (prints_data, json) = (arguments.verb.prints_data(), arguments.verb.json());
    ended(prints_data, json, || {
        place::lay_out_checkout(checkout)?;
        arguments.verb.run()
    })
}

/// Returns the command with examples as the user calls it.
fn as_called(command: Command) -> Command {
    let again = |text: Option<&StyledStr>| text.map(|text| called(&text.to_string()).into_owned());
    let (about, after) = (again(command.get_about()), again(command.get_after_help()));
    let command = match about {
        Some(about) => command.about(about),
        None => command,
    };
    let command = match after {
        Some(after) => command.after_help(after),
        None => command,
    };
    let help = |argument: Arg| match again(argument.get_help()) {
        Some(help) => argument.help(help),
        None => argument,
    };
    command.mut_args(help).mut_subcommands(as_called)
}

/// Runs a command, prints its error, and returns its exit code.
fn ended(prints_data: bool, json: bool, command: impl FnOnce() -> Result<u8>) -> ExitCode {
    end_quietly_when_nobody_reads();
    if json && let Err(error) = json::reserve_stdout() {
        eprintln!("error: cannot keep standard output for JSON: {error:#}");
        return ExitCode::from(exit::LAB);
    }
    // Dropped last, after the error is printed.
    let stopped = if prints_data { Ok(None) } else { StoppedCommands::begin() };
    let ran = match &stopped {
        Ok(_) => interrupt::install().and_then(|()| Ok(place::find_project()?)).and_then(|()| command()),
        Err(error) => Err(anyhow!("cannot stop the commands of the workflow: {error}")),
    };
    match ran {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {}", printable(called(&format!("{error:#}")).into_owned()));
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

pub(crate) use place::{results, root, scenarios};

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
