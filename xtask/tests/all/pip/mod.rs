//! Python packages that tests use, which pip fetches into the cache, each pinned by its hash.

use lab::{
    cache::{Cache, KeyBuilder},
    host::process::Tool,
    progress::Progress,
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Runs a program with the packages of a directory and nothing of the user's.
const ISOLATED: &str = "import runpy, sys; sys.path.insert(0, sys.argv[1]); del sys.argv[:2]; \
                        runpy.run_path(sys.argv[0], run_name='__main__')";

/// Returns the directory of these packages in the cache.
pub(crate) fn packages(requirements: &str) -> PathBuf {
    let interpreter = "import sys, sysconfig; print(sys.implementation.cache_tag, sysconfig.get_platform())";
    let interpreter = Tool::new("python3").args(["-I", "-c", interpreter]).run().unwrap();
    let key = KeyBuilder::default()
        .input("requirements", requirements)
        .input("interpreter", interpreter)
        .finish("packages");
    let fetch = |into: &Path| {
        let list = into.join("requirements.txt");
        fs::write(&list, requirements)?;
        let pip = ["-I", "-m", "pip", "--disable-pip-version-check", "install", "--quiet"];
        let pip = Tool::new("python3").args(pip);
        let pip =
            pip.args(["--only-binary=:all:", "--no-deps", "--require-hashes", "--no-cache-dir", "--target"]);
        let pip = pip.arg(into).arg("--requirement").arg(list);
        pip.env("PIP_ROOT_USER_ACTION", "ignore").run().map(drop)
    };
    Cache::open(&Progress::silent()).unwrap().entry("python", &key, || {}, fetch).unwrap()
}

/// Returns a command that runs a Python program with these packages.
pub(crate) fn python(packages: &Path, program: &Path) -> Tool {
    Tool::new("python3").args(["-I", "-B", "-c", ISOLATED]).arg(packages).arg(program)
}
