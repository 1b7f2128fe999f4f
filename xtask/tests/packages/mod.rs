//! Python packages for tests, which pip fetches into the cache: each must be one whose SHA-256 is in a list.

use lab::{
    cache::{Cache, KeyBuilder},
    host::process::Tool,
    progress::Progress,
};
use std::path::{Path, PathBuf};

/// Runs a script with the packages of a directory and nothing of the user's.
pub(crate) const ISOLATED: &str = "import runpy, sys; sys.path.insert(0, sys.argv[1]); del sys.argv[:2]; \
                                   runpy.run_path(sys.argv[0], run_name='__main__')";

/// Returns the directory of the packages that a list requires, in the cache.
pub(crate) fn packages(requirements: &Path) -> PathBuf {
    let interpreter = "import sys, sysconfig; print(sys.implementation.cache_tag, sysconfig.get_platform())";
    let interpreter = Tool::new("python3").args(["-I", "-c", interpreter]).run().unwrap();
    let key = KeyBuilder::default()
        .input("requirements", std::fs::read_to_string(requirements).unwrap())
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
        let pip = pip.arg(into).arg("--requirement").arg(requirements);
        pip.env("PIP_ROOT_USER_ACTION", "ignore").run().map(drop)
    };
    Cache::open(&Progress::silent()).unwrap().entry("mcp", &key, || {}, fetch).unwrap()
}
