//! `lab mcp`, spoken to by the client of the protocol's own Python package, which pip fetches into the cache.

use lab::{
    cache::{Cache, KeyBuilder},
    host::process::Tool,
    progress::Progress,
};
use std::path::{Path, PathBuf};

/// The packages, each with the hashes of its wheels.
const REQUIREMENTS: &str = include_str!("mcp_client/requirements.txt");

/// Runs the client with the packages of a directory and nothing of the user's.
const ISOLATED: &str = "import runpy, sys; sys.path.insert(0, sys.argv[1]); del sys.argv[:2]; \
                        runpy.run_path(sys.argv[0], run_name='__main__')";

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp_client").join(name)
}

/// Returns the directory of the client's packages.
fn packages() -> PathBuf {
    let interpreter = "import sys, sysconfig; print(sys.implementation.cache_tag, sysconfig.get_platform())";
    let interpreter = Tool::new("python3").args(["-I", "-c", interpreter]).run().unwrap();
    let key = KeyBuilder::default()
        .input("requirements", REQUIREMENTS)
        .input("interpreter", interpreter)
        .finish("client");
    let fetch = |into: &Path| {
        let pip = Tool::new("python3").args([
            "-I",
            "-m",
            "pip",
            "--disable-pip-version-check",
            "install",
            "--quiet",
        ]);
        let pip =
            pip.args(["--only-binary=:all:", "--no-deps", "--require-hashes", "--no-cache-dir", "--target"]);
        let pip = pip.arg(into).arg("--requirement").arg(file("requirements.txt"));
        pip.env("PIP_ROOT_USER_ACTION", "ignore").run().map(drop)
    };
    Cache::open(&Progress::silent()).unwrap().entry("mcp", &key, || {}, fetch).unwrap()
}

#[test]
fn a_client_that_is_not_ours_uses_every_tool() {
    let packages = packages();
    for mode in ["legacy", "auto"] {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let client =
            Tool::new("python3").args(["-I", "-B", "-c", ISOLATED]).arg(&packages).arg(file("client.py"));
        let client = client.arg(mode).arg(directory.path().join("results")).arg(env!("CARGO_BIN_EXE_xtask"));
        println!("{mode}: {}", client.args(["lab", "mcp"]).directory(directory.path()).run().unwrap());
    }
}
