//! `cargo xtask …`

use std::{path::Path, process::ExitCode};

fn main() -> ExitCode {
    xtask::of_checkout(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
}
