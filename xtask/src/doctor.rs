//! `cargo xtask doctor`

use crate::exit;
use anyhow::Result;
use lab::host;

pub(crate) fn run() -> Result<u8> {
    let checks = host::doctor();
    for check in &checks {
        let mark = match (check.ok, check.required) {
            (true, _) => "ok",
            (false, true) => "MISSING",
            (false, false) => "optional",
        };
        println!("{mark:8}  {check}");
    }
    match host::install_command(&checks) {
        Some(command) => {
            println!("\nto install what is missing:\n  {command}");
            Ok(exit::LAB)
        }
        None => Ok(exit::SUCCESS),
    }
}
