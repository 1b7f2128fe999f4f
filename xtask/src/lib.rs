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
mod explore;
mod fuzz;
mod gdb;
mod history;
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
mod verbs;

use anyhow::{Result, anyhow};
use clap::{Arg, Command, CommandFactory, FromArgMatches, Parser, builder::StyledStr};
pub use lab::Checkout;
use lab::{
    bisect::BisectError,
    host::{interrupt, workflow::StoppedCommands},
    kernel::SpecError,
    machine::boot_if_child,
    mutants::MutantError,
    reproducer::ReproError,
    scenario::ScenarioError,
    words::{called, printable, set_installed},
};
use std::{env, ffi::OsString, fmt, panic, process::ExitCode};
use verbs::{EXIT_CODES, InstalledVerb, Verb, begin, likely};

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
