//! `cargo xtask ci` and `cargo xtask test`: what CI runs, as a person would run it.

use crate::{exit, root, setup::Setup};
use anyhow::Result;
use clap::Args;
use lab::{guest, host::prerequisites::Need, kernel, progress::Progress};
use xshell::{Shell, cmd};

/// Set everything up, then run all tests: unit tests, then every scenario on the default kernel
#[derive(Args)]
#[command(after_help = "Example:\n  cargo xtask test --yes")]
pub(crate) struct Test {
    #[command(flatten)]
    setup: Setup,
}

impl Test {
    pub(crate) fn run(self) -> Result<u8> {
        let progress = Progress::new();
        let cache = self.setup.ensure(Need::Test, &progress)?;
        kernel::build(&cache, root(), kernel::DEFAULT, None, &progress)?;
        guest::build(&cache, root(), &progress)?;
        let shell = shell()?;
        // Both, whatever the first one finds; the scenarios last, so that their count is.
        let units = cmd!(shell, "cargo test --workspace --no-fail-fast").run();
        let scenarios = cmd!(shell, "cargo test --workspace --test scenarios").run();
        let failed = [units, scenarios].into_iter().filter_map(Result::err);
        let failed = failed.inspect(|error| eprintln!("error: {error}")).count();
        Ok(if failed == 0 { exit::SUCCESS } else { exit::FAILED })
    }
}

/// Formatting and clippy: what needs no kernel.
pub(crate) fn run() -> Result<u8> {
    let shell = shell()?;
    cmd!(shell, "cargo fmt --all --check").run()?;
    cmd!(shell, "cargo clippy --workspace --all-targets -- -D warnings").run()?;
    Ok(exit::SUCCESS)
}

fn shell() -> Result<Shell> {
    let shell = Shell::new()?;
    shell.change_dir(root());
    Ok(shell)
}
