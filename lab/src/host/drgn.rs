//! drgn, which reads the memory of a kernel and runs on any host: from PyPI, kept in the cache.
//!
//! Nothing on the host is changed: pip unpacks one wheel into an entry of the cache, and a Python
//! that was told of that directory alone imports it from there. Only who looks at a dump needs it.

use super::{interrupt, process::Tool};
use crate::{
    cache::{Cache, KeyBuilder},
    progress::Progress,
};
use anyhow::{Context, Result};
use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// The version that dumps are read with.
const VERSION: &str = "0.3.0";

const PYTHON: &str = "python3";

/// Names the interpreter that a wheel has to be for.
const INTERPRETER: &str =
    "import sys, sysconfig; print(sys.implementation.cache_tag, sysconfig.get_platform())";

/// A drgn that can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drgn {
    /// Where its Python package is.
    packages: PathBuf,
}

/// drgn cannot be had on this host.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot get drgn {VERSION}, which reads dumps: {0}")]
pub struct NoDrgn(String);

impl Drgn {
    /// The drgn of the cache, fetched if it is not there. A failure is remembered: it costs its wait
    /// for the network once, not with every scenario.
    pub fn obtain(cache: &Cache, progress: &Progress) -> Result<Drgn, NoDrgn> {
        static FAILED: OnceLock<NoDrgn> = OnceLock::new();
        if let Some(failed) = FAILED.get() {
            return Err(failed.clone());
        }
        fetched(cache, progress).map_err(|error| {
            let failed = NoDrgn(format!("{error:#}"));
            match interrupt::check() {
                Ok(()) => FAILED.get_or_init(|| failed).clone(),
                Err(_) => failed,
            }
        })
    }

    /// The interpreter, and the arguments with which it runs `program` with drgn at hand, and
    /// nothing else of the user's. The program finds the directory of its packages in `sys.argv[1]`.
    pub(crate) fn command(&self, program: &str) -> (&'static str, [String; 5]) {
        // -I: no variables, no packages of the user's. -B: nothing is written into the cache's entry.
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
        .input("version", VERSION)
        .input("interpreter", interpreter.trim())
        .finish(&format!("drgn-{VERSION}"));
    let waiting = || progress.line("another lab is fetching drgn; waiting");
    let packages = cache.entry("drgn", &key, waiting, |into| {
        let _task = progress.task(format!("fetching drgn {VERSION}"), None);
        fetch(into)
    })?;
    Ok(Drgn { packages })
}

fn fetch(into: &Path) -> Result<()> {
    let pip = || Tool::new(PYTHON).args(["-I", "-m", "pip", "--disable-pip-version-check"]);
    pip().arg("--version").run().context("there is no pip; install the package `python3-pip`")?;
    pip()
        .args(["install", "--no-input", "--quiet", "--no-cache-dir", "--retries", "1", "--timeout", "20"])
        // A source package would be built with whatever compiler and libraries there are.
        .args(["--only-binary=:all:", "--no-deps", "--target"])
        .arg(into)
        .arg(format!("drgn=={VERSION}"))
        // It warns of what it does elsewhere as root.
        .env("PIP_ROOT_USER_ACTION", "ignore")
        .run()
        .context("pip cannot fetch it; this takes a network, and a Python that drgn has a wheel for")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_runs_apart_from_what_the_user_has() {
        let drgn = Drgn { packages: "/c/drgn/x".into() };
        let (python, arguments) = drgn.command("print()");
        assert_eq!(python, "python3");
        assert_eq!(arguments, ["-I", "-B", "-c", "print()", "/c/drgn/x"]);
    }
}
