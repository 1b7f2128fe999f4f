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
    path::Path,
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
    let git = if directory.join(".git").exists() { git_state(&directory).ok() } else { None };
    interrupt::check()?;
    let (key, label) = match git {
        Some((head, changes)) if changes == EMPTY => (key.input("head", &head), head[..12].to_owned()),
        Some((head, changes)) => {
            let label = format!("{}-dirty", &head[..12]);
            (key.input("head", head).input("changes", changes), label)
        }
        None => (key.input("files", files_digest(&directory)?), version.to_string()),
    };
    let key = key.finish(&format!("tree-{version}")).as_str().to_owned();
    Ok(Source { directory, version, label, key, mutable: true, lease: None })
}

/// The SHA-256 of an empty diff.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Returns the checked-out commit and a digest of the differences from it.
fn git_state(directory: &Path) -> Result<(String, String)> {
    let git = |args: &[&str]| git(directory).args(args).run();
    let head = git(&["rev-parse", "HEAD"])?.trim().to_owned();
    if head.len() < 40 || !head.is_ascii() {
        bail!("git returned `{head}` for HEAD, expected a commit");
    }
    let mut digest = Sha256::new();
    digest.update(git(&["diff", "--no-ext-diff", "--no-textconv", "--binary", "HEAD"])?);
    for name in git(&["ls-files", "--others", "--exclude-standard", "-z"])?.split_terminator('\0') {
        digest.update(name);
        digest_file(&mut digest, &directory.join(name))?;
    }
    Ok((head, hex(&digest.finalize())))
}

/// Returns a digest of the name, size and mtime of every file.
fn files_digest(directory: &Path) -> Result<String> {
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
    let mut digest = Sha256::new();
    for file in files {
        digest.update(file.as_os_str().as_bytes());
        digest_file(&mut digest, &file)?;
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
