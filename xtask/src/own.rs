//! `cargo xtask ci` and `cargo xtask test`: the commands that CI runs, for use by hand as well.

use crate::{exit, root, setup::Setup};
use anyhow::{Result, bail};
use checkers::actionlint;
use clap::Args;
use lab::{guest, host::prerequisites::Need, kernel};
use xshell::{Cmd, Shell, cmd};

/// Build everything and run all tests: unit tests, then every scenario on the default kernel
#[derive(Args)]
#[command(after_help = "Example:\n  cargo xtask test --yes")]
pub(crate) struct Test {
    #[command(flatten)]
    setup: Setup,
}

impl Test {
    pub(crate) fn run(self) -> Result<u8> {
        let lab = self.setup.ensure(Need::Test)?;
        kernel::build(&lab, kernel::DEFAULT, None)?;
        guest::build(&lab)?;
        let shell = shell()?;
        // Run both even if the first fails; scenarios last, so that their summary ends the output.
        // In a workflow, the labs that tests run would print all on stdout; this one's output is enclosed.
        let alone = |command: Cmd<'_>| command.env_remove("GITHUB_ACTIONS").run();
        let units = alone(cmd!(shell, "cargo test --workspace --no-fail-fast"));
        let scenarios = alone(cmd!(shell, "cargo test --workspace --test scenarios"));
        let failed = [units, scenarios].into_iter().filter_map(Result::err);
        let failed = failed.inspect(|error| eprintln!("error: {error}")).count();
        Ok(if failed == 0 { exit::SUCCESS } else { exit::FAILED })
    }
}

/// Check formatting, clippy and the workflow files, as CI does before the tests
#[derive(Args)]
#[command(after_help = "Example:\n  cargo xtask ci && cargo xtask test --yes")]
pub(crate) struct Ci {
    #[command(flatten)]
    setup: Setup,
}

impl Ci {
    pub(crate) fn run(self) -> Result<u8> {
        let lab = self.setup.ensure(Need::Workflows)?;
        let shell = shell()?;
        self.components(&shell)?;
        cmd!(shell, "cargo fmt --all --check").run()?;
        cmd!(shell, "cargo clippy --workspace --all-targets -- -D warnings").run()?;
        let complaints = actionlint::lint(&lab)?;
        complaints.iter().for_each(|complaint| println!("{complaint}"));
        println!("actionlint: {} complaints", complaints.len());
        Ok(if complaints.is_empty() { exit::SUCCESS } else { exit::FAILED })
    }

    /// Makes sure that rustfmt and clippy are installed; container images lack them.
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
                "{} missing: run `rustup component add {}`, or repeat this with --yes",
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
