//! `cargo xtask doctor`

use crate::{
    exit,
    json::{self, Json},
    setup::Setup,
};
use anyhow::Result;
use clap::Args;
use lab::{host::prerequisites::doctor, words::called};
use schemars::JsonSchema;
use serde::Serialize;

/// Show every prerequisite, its version, and whether it is sufficient
#[derive(Args)]
#[command(
    after_help = "Examples:\n  cargo xtask doctor\n  cargo xtask doctor --yes    install what is missing"
)]
pub(crate) struct Doctor {
    /// Install the missing Debian packages first
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// A prerequisite.
#[derive(Serialize, JsonSchema)]
struct Prerequisite {
    /// A program, or the contents of a package.
    name: &'static str,
    /// Its Debian package.
    package: &'static str,
    needed_for: &'static str,
    /// Whether it is installed and new enough.
    ok: bool,
    /// Whether running scenarios requires it.
    required: bool,
    /// What to do if it is not ok.
    hint: Option<String>,
}

impl Doctor {
    pub(crate) fn run(self) -> Result<u8> {
        if self.yes {
            Setup { yes: true }.ensure_for_crash()?;
        }
        let checks = doctor();
        let ready = checks.iter().all(|check| check.ok || !check.required);
        let code = if ready { exit::SUCCESS } else { exit::LAB };
        if self.json.wanted {
            let found = checks.into_iter().map(|check| Prerequisite {
                name: check.name,
                package: check.package,
                needed_for: check.needed_for,
                ok: check.ok,
                required: check.required,
                hint: check.hint,
            });
            json::print(&found.collect::<Vec<_>>())?;
            return Ok(code);
        }
        for check in &checks {
            let mark = match (check.ok, check.required) {
                (true, _) => "ok",
                (false, true) => "MISSING",
                (false, false) => "optional",
            };
            println!("{mark:8}  {check}");
        }
        let next = if ready {
            "this machine is ready"
        } else {
            "`cargo xtask doctor --yes` installs what is missing"
        };
        println!("\n{}", called(next));
        Ok(code)
    }
}
