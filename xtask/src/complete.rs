//! `cargo xtask completions`, and what shells ask for when a command line is completed.
//!
//! A shell asks the program itself, which knows the names of scenarios and kernels. Since `cargo xtask`
//! is cargo's command line and not the program's, each script also stands before cargo's own completion,
//! to which it leaves everything but `cargo xtask`.

use crate::{Arguments, exit, root, scenarios as directory};
use anyhow::{Context, Result};
use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::{
    CompleteEnv,
    engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter},
    env::Shells,
};
use lab::{kernel, scenario};
use std::{env, ffi::OsStr, io};

/// What tells the program that a shell asks.
const VARIABLE: &str = "COMPLETE";

/// Print what makes a shell complete `cargo xtask`, names of scenarios and kernels included
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    source <(cargo xtask completions bash)       in bash; put it in ~/.bashrc, with `cd` to the checkout before\n  \
    source <(cargo xtask completions zsh)        in zsh, behind compinit\n  \
    cargo xtask completions fish | source        in fish\n\n\
    A script knows where the program is, in target/ of this checkout, and has it answer; nothing is built then. \
    What is behind `cargo` and is not `xtask` is left to cargo's own completion, which has to be there before \
    if it is wanted.")]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

#[derive(Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Completions {
    pub(crate) fn run(self) -> Result<u8> {
        let (name, behind_cargo) = match self.shell {
            Shell::Bash => ("bash", include_str!("complete/cargo.bash")),
            Shell::Zsh => ("zsh", include_str!("complete/cargo.zsh")),
            Shell::Fish => ("fish", include_str!("complete/cargo.fish")),
        };
        let shells = Shells::builtins();
        let shell = shells.completer(name).with_context(|| format!("no completions for `{name}`"))?;
        let program = env::current_exe().context("cannot tell where this program is")?;
        let program = program.to_str().context("the path of this program is not UTF-8")?;
        shell.write_registration(VARIABLE, "xtask", "xtask", program, &mut io::stdout())?;
        // A quote in the path ends no string in any of the three.
        let quoted = format!("'{}'", program.replace('\'', "'\\''"));
        print!("{}", behind_cargo.replace("PROGRAM", &quoted));
        Ok(exit::SUCCESS)
    }
}

/// Answers a shell that asks, and is the end of the process then.
pub(crate) fn answer() {
    CompleteEnv::with_factory(Arguments::command).var(VARIABLE).bin("xtask").complete();
}

/// Names of scenarios, and paths of files.
pub(crate) fn scenarios() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        let found = scenario::find(&directory(), &[]).unwrap_or_default();
        let mut candidates = beginning(begun, found.into_iter().map(|found| found.name));
        candidates.extend(PathCompleter::any().complete(begun));
        candidates
    })
}

/// Names of kernels.
pub(crate) fn kernels() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        let specs = kernel::list(root()).unwrap_or_default();
        beginning(begun, specs.into_iter().map(|spec| spec.name))
    })
}

fn beginning(begun: &OsStr, names: impl Iterator<Item = String>) -> Vec<CompletionCandidate> {
    let begun = begun.to_string_lossy();
    names.filter(|name| name.starts_with(&*begun)).map(CompletionCandidate::new).collect()
}
