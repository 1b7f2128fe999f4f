//! `lab mcp`, spoken to by the client of the protocol's own Python package, which pip fetches into the cache.

use crate::{pip, stage::scratch};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The packages, each with the hashes of its wheels.
const REQUIREMENTS: &str = include_str!("../mcp_client/requirements.txt");

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp_client").join(name)
}

#[test]
fn a_client_that_is_not_ours_uses_every_tool() {
    let packages = pip::packages(REQUIREMENTS);
    for mode in ["legacy", "auto"] {
        let (directory, temporary) = (scratch(), scratch());
        let client = pip::python(&packages, &file("client.py"));
        let client = client.arg(mode).arg(directory.path().join("results")).arg(env!("CARGO_BIN_EXE_xtask"));
        let client = client.args(["lab", "mcp"]).env("TMPDIR", temporary.path());
        println!("{mode}: {}", client.directory(directory.path()).run().unwrap());
        // Also the texts of scenarios whose server was killed are in the cache.
        let left: Vec<_> = fs::read_dir(temporary.path()).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}
