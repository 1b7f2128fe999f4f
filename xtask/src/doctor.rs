//! `cargo xtask doctor`

use crate::exit;
use anyhow::Result;
use lab::{host::prerequisites::doctor, words::called};

pub(crate) fn run() -> Result<u8> {
    let checks = doctor();
    for check in &checks {
        let mark = match (check.ok, check.required) {
            (true, _) => "ok",
            (false, true) => "MISSING",
            (false, false) => "optional",
        };
        println!("{mark:8}  {check}");
    }
    let ready = checks.iter().all(|check| check.ok || !check.required);
    let next =
        if ready { "this machine is ready" } else { "`cargo xtask lab run --yes` installs what is missing" };
    println!("\n{}", called(next));
    Ok(if ready { exit::SUCCESS } else { exit::LAB })
}
