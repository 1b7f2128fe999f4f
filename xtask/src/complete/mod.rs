//! `cargo xtask completions`, and the answers to the completion requests of shells.
//!
//! The scripts call the program itself, which knows the names of scenarios and kernels. Since `cargo xtask`
//! is cargo's command line and not the program's, each script also wraps cargo's own completion, and
//! passes it everything except `cargo xtask`.

use crate::{exit, root, scenarios as directory};
use anyhow::{Context, Result};
use clap::{Args, Command, ValueEnum};
use clap_complete::{
    CompleteEnv,
    engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter},
    env::Shells,
};
use lab::{kernel, scenario, words::is_installed};
use std::{env, ffi::OsStr, io};

/// The environment variable that marks a completion request.
const VARIABLE: &str = "COMPLETE";

/// Print a shell completion script for `cargo xtask`, with names of scenarios and kernels
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    source <(cargo xtask completions bash)       in bash; in ~/.bashrc, cd to the checkout first\n  \
    source <(cargo xtask completions zsh)        in zsh, after compinit\n  \
    cargo xtask completions fish | source        in fish\n\n\
    A script calls the program itself, and builds nothing. That of `cargo xtask` passes other commands of cargo to \
    cargo's own completion, which must be loaded first to be used.")]
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
            Shell::Bash => ("bash", include_str!("cargo.bash")),
            Shell::Zsh => ("zsh", include_str!("cargo.zsh")),
            Shell::Fish => ("fish", include_str!("cargo.fish")),
        };
        let shells = Shells::builtins();
        let shell = shells.completer(name).with_context(|| format!("no completions for `{name}`"))?;
        let program = env::current_exe().context("cannot determine the path of this program")?;
        let program = program.to_str().context("the path of this program is not UTF-8")?;
        let command = if is_installed() { "ftrace-lab" } else { "xtask" };
        shell.write_registration(VARIABLE, command, command, program, &mut io::stdout())?;
        if is_installed() {
            return Ok(exit::SUCCESS);
        }
        // This escapes quotes in the path for all three shells.
        let quoted = format!("'{}'", program.replace('\'', "'\\''"));
        print!("{}", behind_cargo.replace("PROGRAM", &quoted));
        Ok(exit::SUCCESS)
    }
}

/// Returns whether a shell requests completions.
pub(crate) fn is_asked() -> bool {
    env::var_os(VARIABLE).is_some()
}

/// Answers a completion request for the command `name` and exits; returns if there is none.
pub(crate) fn answer(name: &'static str, command: impl Fn() -> Command) {
    CompleteEnv::with_factory(command).var(VARIABLE).bin(name).complete();
}

/// Completes names of scenarios and paths of files.
pub(crate) fn scenarios() -> ArgValueCompleter {
    ArgValueCompleter::new(|begun: &OsStr| {
        let found = scenario::find(&directory(), &[]).unwrap_or_default();
        let mut candidates = beginning(begun, found.into_iter().map(|found| found.name));
        candidates.extend(PathCompleter::any().complete(begun));
        candidates
    })
}

/// Completes names of kernels.
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
