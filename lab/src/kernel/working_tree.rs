//! A kernel tree on the host: a working copy, used in place and never written to.

use super::source_tree::{Source, version_of};
use crate::{
    cache::KeyBuilder,
    host::{git::git, interrupt},
    words::hex,
};
use anyhow::{Context, Result, bail};
use fs_err as fs;
use sha2::{Digest, Sha256};
use std::{
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

/// Leftovers of a build inside the tree, with which kbuild refuses to build out of tree.
const LEFTOVERS: [&str; 3] = [".config", "include/config", "arch/arm64/include/generated"];

/// A working tree has about 90 thousand files.
const FILES_LIMIT: usize = 1_000_000;

/// Opens the tree at `path`; its key changes with its contents.
pub(super) fn open(path: &Path) -> Result<Source> {
    let directory = fs::canonicalize(path).context("cannot find the kernel tree")?;
    let version = version_of(&directory)?;
    if let Some(leftover) = LEFTOVERS.iter().find(|name| directory.join(name).exists()) {
        bail!(
            "cannot build the kernel tree `{}` out of tree: it has `{leftover}` of a build inside it; clean \
             it with `make -C {} ARCH=arm64 mrproper`, which also removes its .config",
            directory.display(),
            directory.display()
        );
    }
    let key = KeyBuilder::default().input("tree", directory.as_os_str().as_bytes());
    // Without git, or in a repository it does not trust, fall back to the files' sizes and times.
    let git = if directory.join(".git").exists() { GitState::of(&directory).ok() } else { None };
    interrupt::check()?;
    let (key, label, headers) = match git {
        Some(GitState { head, changes, headers }) if changes == EMPTY => {
            (key.input("head", &head), head[..12].to_owned(), headers)
        }
        Some(GitState { head, changes, headers }) => {
            let label = format!("{}-dirty", &head[..12]);
            (key.input("head", head).input("changes", changes), label, headers)
        }
        None => {
            let files = files_of(&directory)?;
            let headers =
                files.iter().filter(|file| is_header(file.strip_prefix(&directory).unwrap_or(file)));
            let headers = files_digest(headers)?;
            (key.input("files", files_digest(&files)?), version.to_string(), headers)
        }
    };
    let key = key.finish(&format!("tree-{version}")).as_str().to_owned();
    Ok(Source { directory, version, label, key, headers: Some(headers), lease: None })
}

/// Returns whether configuring the kernel, or building a module for it, may read a file of the tree: any but what
/// is only compiled into the kernel.
fn is_header(path: &Path) -> bool {
    let is_compiled =
        path.extension().is_some_and(|extension| ["c", "S", "rs"].iter().any(|is| extension == *is));
    !is_compiled || path.starts_with("scripts") || path.starts_with("tools")
}

/// The SHA-256 of an empty diff.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// The state of a git tree.
struct GitState {
    /// The checked-out commit.
    head: String,
    /// A digest of the differences from it.
    changes: String,
    /// See [`Source::headers`].
    headers: String,
}

impl GitState {
    fn of(directory: &Path) -> Result<GitState> {
        let git = |args: &[&str]| git(directory).args(args).run();
        let head = git(&["rev-parse", "HEAD"])?.trim().to_owned();
        if head.len() < 40 || !head.is_ascii() {
            bail!("git returned `{head}` for HEAD, expected a commit");
        }
        let mut changes = Sha256::new();
        changes.update(git(&["diff", "--no-ext-diff", "--no-textconv", "--binary", "HEAD"])?);
        let mut headers = Sha256::new();
        // Each line ends with a tab and the path.
        for file in git(&["ls-tree", "-r", "-z", "HEAD"])?.split_terminator('\0') {
            if file.split('\t').nth(1).is_some_and(|path| is_header(Path::new(path))) {
                headers.update(file);
            }
        }
        let changed = git(&["diff", "--name-only", "--no-renames", "-z", "HEAD"])?;
        let new = git(&["ls-files", "--others", "--exclude-standard", "-z"])?;
        for name in new.split_terminator('\0') {
            changes.update(name);
            digest_file(&mut changes, &directory.join(name))?;
        }
        let names = changed.split_terminator('\0').chain(new.split_terminator('\0'));
        for name in names.filter(|name| is_header(Path::new(name))) {
            headers.update(name);
            // One that was removed has only its name.
            let _ = digest_file(&mut headers, &directory.join(name));
        }
        Ok(GitState { head, changes: hex(&changes.finalize()), headers: hex(&headers.finalize()) })
    }
}

/// Returns all files below a directory, sorted.
pub(super) fn files_of(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        interrupt::check()?;
        for entry in fs::read_dir(&next)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                if entry.file_name() != ".git" {
                    directories.push(entry.path());
                }
            } else {
                files.push(entry.path());
            }
        }
        if files.len() > FILES_LIMIT {
            bail!("`{}` has more than {FILES_LIMIT} files, too many for a kernel tree", directory.display());
        }
    }
    files.sort();
    Ok(files)
}

/// Returns a digest of the name, size and mtime of each file.
pub(super) fn files_digest(files: impl IntoIterator<Item: AsRef<Path>>) -> Result<String> {
    let mut digest = Sha256::new();
    for file in files {
        digest.update(file.as_ref().as_os_str().as_bytes());
        digest_file(&mut digest, file.as_ref())?;
    }
    Ok(hex(&digest.finalize()))
}

fn digest_file(digest: &mut Sha256, path: &Path) -> Result<()> {
    let data = fs::symlink_metadata(path)?;
    digest.update([0]);
    digest.update(data.len().to_le_bytes());
    digest.update(data.mtime().to_le_bytes());
    digest.update(data.mtime_nsec().to_le_bytes());
    Ok(())
}
