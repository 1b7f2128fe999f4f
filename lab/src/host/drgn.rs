//! drgn, which reads kernel memory dumps on any host; fetched from PyPI into the cache.
//!
//! Nothing on the host is changed: pip unpacks one wheel into an entry of the cache, and Python
//! imports it from that directory. The wheel must be one of those whose SHA-256 is in `drgn.txt`. drgn is
//! only needed to inspect dumps.

use super::{interrupt, process::Tool};
use crate::{
    cache::{Cache, KeyBuilder},
    progress::Progress,
};
use anyhow::{Context, Result};
use fs_err as fs;
use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// The version used to read dumps, that of [`REQUIREMENTS`].
const VERSION: &str = "0.3.0";

/// The version and the hashes of its wheels, for pip.
const REQUIREMENTS: &str = include_str!("drgn.txt");

const PYTHON: &str = "python3";

/// Prints the interpreter that a wheel must be built for.
const INTERPRETER: &str =
    "import sys, sysconfig; print(sys.implementation.cache_tag, sysconfig.get_platform())";

/// A drgn that can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drgn {
    /// The directory of its Python package.
    packages: PathBuf,
}

/// drgn is not available on this host.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot get drgn {VERSION}, which reads dumps: {0}")]
pub struct DrgnUnavailable(String);

impl Drgn {
    /// Returns the drgn of the cache, fetching it if necessary. A failure is remembered, so that
    /// the network timeout is paid once, not for every scenario. A recording has only the cache of its
    /// kernel and shows no progress, so this takes no [`Lab`](crate::Lab).
    pub fn obtain(cache: &Cache, progress: &Progress) -> Result<Drgn, DrgnUnavailable> {
        static FAILED: OnceLock<DrgnUnavailable> = OnceLock::new();
        if let Some(failed) = FAILED.get() {
            return Err(failed.clone());
        }
        fetched(cache, progress).map_err(|error| {
            let failed = DrgnUnavailable(format!("{error:#}"));
            match interrupt::check() {
                Ok(()) => FAILED.get_or_init(|| failed).clone(),
                Err(_) => failed,
            }
        })
    }

    /// Returns the interpreter and the arguments that run `program` isolated from the user's Python
    /// environment. The program finds drgn's directory in `sys.argv[1]`.
    pub(crate) fn command(&self, program: &str) -> (&'static str, [String; 5]) {
        // -I: ignore the user's variables and packages. -B: write nothing into the cache entry.
        let flags = ["-I", "-B", "-c"].map(str::to_owned);
        let [isolated, clean, code] = flags;
        (PYTHON, [isolated, clean, code, program.to_owned(), self.packages.display().to_string()])
    }
}

fn fetched(cache: &Cache, progress: &Progress) -> Result<Drgn> {
    let interpreter = Tool::new(PYTHON)
        .args(["-I", "-c", INTERPRETER])
        .run()
        .with_context(|| format!("cannot run `{PYTHON}`; install the package `python3`"))?;
    let key = KeyBuilder::default()
        .input("requirements", REQUIREMENTS)
        .input("interpreter", interpreter.trim())
        .finish(&format!("drgn-{VERSION}"));
    let waiting = || progress.line("waiting for another process that is fetching drgn");
    let packages = cache.entry("drgn", &key, waiting, |into| {
        let _task = progress.task(format!("fetching drgn {VERSION}"), None);
        fetch(into)
    })?;
    Ok(Drgn { packages })
}

fn fetch(into: &Path) -> Result<()> {
    pip().arg("--version").run().context("there is no pip; install the package `python3-pip`")?;
    let requirements = into.join("requirements.txt");
    fs::write(&requirements, REQUIREMENTS)?;
    install(&requirements, into).run().context(
        "pip cannot fetch drgn; it needs network access, a Python version that drgn has a wheel for, and a \
         wheel whose hash is in lab/src/host/drgn.txt",
    )?;
    Ok(())
}

fn pip() -> Tool {
    Tool::new(PYTHON).args(["-I", "-m", "pip", "--disable-pip-version-check"])
}

/// Returns the command that unpacks the wheel that `requirements` names.
fn install(requirements: &Path, into: &Path) -> Tool {
    pip()
        .args(["install", "--no-input", "--quiet", "--no-cache-dir", "--retries", "1", "--timeout", "20"])
        // A source package would be built with whatever compiler and libraries are installed.
        .args(["--only-binary=:all:", "--no-deps", "--require-hashes", "--target"])
        .arg(into)
        .arg("--requirement")
        .arg(requirements)
        // Suppresses the warning about running as root, which does not apply to --target.
        .env("PIP_ROOT_USER_ACTION", "ignore")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a wheel with the name and version of drgn to the directory in `sys.argv[1]`.
    const FORGE: &str = "import sys, zipfile\n\
        wheel = zipfile.ZipFile(sys.argv[1] + '/drgn-0.3.0-py3-none-any.whl', 'w')\n\
        info = 'drgn-0.3.0.dist-info/'\n\
        wheel.writestr('drgn.py', '')\n\
        wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: drgn\\nVersion: 0.3.0\\n')\n\
        wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
        wheel.writestr(info + 'RECORD', '')\n";

    #[test]
    fn a_wheel_with_another_hash_is_refused() {
        if pip().arg("--version").run().is_err() {
            eprintln!("unsupported: there is no pip");
            return;
        }
        assert!(REQUIREMENTS.contains(&format!("\ndrgn=={VERSION} ")));
        let directory = tempfile::tempdir().unwrap();
        let [requirements, into] = ["requirements.txt", "into"].map(|name| directory.path().join(name));
        Tool::new(PYTHON).args(["-I", "-c", FORGE]).arg(directory.path()).run().unwrap();
        let install = |text: &str| {
            fs::write(&requirements, text).unwrap();
            let install = install(&requirements, &into).env("PIP_NO_INDEX", "1");
            install.env("PIP_FIND_LINKS", directory.path()).run().map_err(|error| error.to_string())
        };
        let error = install(REQUIREMENTS).unwrap_err();
        assert!(error.contains("Expected") && error.contains("Got") && !into.exists(), "{error}");
        // Without a hash in the file, too.
        let error = install(&format!("drgn=={VERSION}")).unwrap_err();
        assert!(error.contains("require-hashes") && !into.exists(), "{error}");
    }

    #[test]
    fn a_program_runs_apart_from_what_the_user_has() {
        let drgn = Drgn { packages: "/c/drgn/x".into() };
        let (python, arguments) = drgn.command("print()");
        assert_eq!(python, "python3");
        assert_eq!(arguments, ["-I", "-B", "-c", "print()", "/c/drgn/x"]);
    }
}
