//! `ftrace-lab …`: the command line with the files of the checkout that it was built from.

use std::process::ExitCode;

include!(concat!(env!("OUT_DIR"), "/checkout.rs"));

fn main() -> ExitCode {
    xtask::installed(&xtask::Checkout { files: FILES, digest: DIGEST })
}
