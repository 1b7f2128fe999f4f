//! A kernel tree on this machine: someone's working copy, used where it is and never written to.

use super::source::{Source, version_of};
use crate::{
    cache::{KeyBuilder, hex},
    host::{interrupt, process::Tool},
};
use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::{
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::Path,
};

/// What a build inside the tree leaves behind. kbuild refuses to build out of tree beside it.
const LEFTOVERS: [&str; 3] = [".config", "include/config", "arch/arm64/include/generated"];

/// A working tree has about 90 thousand files.
const FILES_LIMIT: usize = 1_000_000;

/// The tree at `path`, with a key that changes with its content.
pub(super) fn open(path: &Path) -> Result<Source> {
    let directory =
        path.canonicalize().with_context(|| format!("cannot find the kernel tree `{}`", path.display()))?;
    let version = version_of(&directory)?;
    if let Some(leftover) = LEFTOVERS.iter().find(|name| directory.join(name).exists()) {
        bail!(
            "the kernel tree `{}` was built in (it has `{leftover}`), so it cannot be built out of tree; \
             clean it with `make -C {} ARCH=arm64 mrproper`, which removes its .config too",
            directory.display(),
            directory.display()
        );
    }
    let key = KeyBuilder::default().input("tree", directory.as_os_str().as_bytes());
    // Without git, or in a repository it does not trust, the files' sizes and times have to do.
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
    Ok(Source { directory, version, label, key, mutable: true })
}

/// The SHA-256 of no changes at all.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// The commit that is checked out, and a digest of what differs from it.
fn git_state(directory: &Path) -> Result<(String, String)> {
    let git = |args: &[&str]| Tool::new("git").args(args).directory(directory).env("LC_ALL", "C").run();
    let head = git(&["rev-parse", "HEAD"])?.trim().to_owned();
    if head.len() < 40 || !head.is_ascii() {
        bail!("git gave `{head}` for HEAD, expected a commit");
    }
    let mut digest = Sha256::new();
    digest.update(git(&["diff", "--no-ext-diff", "--no-textconv", "--binary", "HEAD"])?);
    for name in git(&["ls-files", "--others", "--exclude-standard", "-z"])?.split_terminator('\0') {
        digest.update(name);
        digest_file(&mut digest, &directory.join(name))?;
    }
    Ok((head, hex(&digest.finalize())))
}

/// A digest of the names, sizes and times of every file.
fn files_digest(directory: &Path) -> Result<String> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        interrupt::check()?;
        let entries = fs::read_dir(&next).with_context(|| format!("cannot read `{}`", next.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot read `{}`", next.display()))?;
            if entry.file_type()?.is_dir() {
                if entry.file_name() != ".git" {
                    directories.push(entry.path());
                }
            } else {
                files.push(entry.path());
            }
        }
        if files.len() > FILES_LIMIT {
            bail!("`{}` has over {FILES_LIMIT} files, too many for a kernel tree", directory.display());
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
    let data = path.symlink_metadata().with_context(|| format!("cannot read `{}`", path.display()))?;
    digest.update([0]);
    digest.update(data.len().to_le_bytes());
    digest.update(data.mtime().to_le_bytes());
    digest.update(data.mtime_nsec().to_le_bytes());
    Ok(())
}
