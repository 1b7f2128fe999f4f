//! `cargo xtask ci` and `cargo xtask test`: what CI runs, as a person would run it.

use crate::{exit, root, setup::Setup};
use anyhow::{Result, bail};
use clap::Args;
use lab::{
    guest,
    host::{actionlint, prerequisites::Need},
    kernel,
    progress::Progress,
};
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

/// Formatting, clippy and the workflow files, as CI checks them before the tests
#[derive(Args)]
#[command(after_help = "Example:\n  cargo xtask ci && cargo xtask test --yes")]
pub(crate) struct Ci {
    #[command(flatten)]
    setup: Setup,
}

impl Ci {
    pub(crate) fn run(self) -> Result<u8> {
        let progress = Progress::new();
        let cache = self.setup.ensure(Need::Workflows, &progress)?;
        let shell = shell()?;
        self.components(&shell)?;
        cmd!(shell, "cargo fmt --all --check").run()?;
        cmd!(shell, "cargo clippy --workspace --all-targets -- -D warnings").run()?;
        let complaints = actionlint::lint(&cache, root(), &progress)?;
        complaints.iter().for_each(|complaint| println!("{complaint}"));
        println!("actionlint: {} complaints", complaints.len());
        Ok(if complaints.is_empty() { exit::SUCCESS } else { exit::FAILED })
    }

    /// rustfmt and clippy, which images of containers leave out.
    fn components(&self, shell: &Shell) -> Result<()> {
        let missing = ["fmt", "clippy"].into_iter().filter(|tool| {
            let asked = cmd!(shell, "cargo {tool} --version").quiet().ignore_stdout().ignore_stderr();
            asked.run().is_err()
        });
        let missing: Vec<_> = missing.map(|tool| if tool == "fmt" { "rustfmt" } else { tool }).collect();
        if missing.is_empty() {
            return Ok(());
        }
        if !self.setup.may_install() {
            bail!(
                "no {}: run `rustup component add {}`, or this with --yes",
                missing.join(", "),
                missing.join(" ")
            );
        }
        Ok(cmd!(shell, "rustup component add {missing...}").run()?)
    }
}

fn shell() -> Result<Shell> {
    let shell = Shell::new()?;
    shell.change_dir(root());
    Ok(shell)
}
