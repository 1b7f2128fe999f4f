//! An archive of a registry → a build in the cache. Its paths cannot lead out of its directory: tar is confined to it.

use super::{DESCRIPTION, Description};
use crate::host::{
    confine::Reach,
    oci::{Found, Repository},
    process::Tool,
};
use anyhow::{Context, Result, ensure};
use fs_err::{self as fs, File};
use std::{
    io::{self, Read},
    os::unix::fs::symlink,
    path::Path,
};

/// The most bytes of an archive: a kernel takes 70 MB.
const PACKED_MAX: usize = 1 << 30;

/// The most bytes of its files: a kernel takes 300 MB.
const UNPACKED_MAX: u64 = 4 << 30;

/// Pulls and unpacks a kernel to `place`, which appears when it is complete.
pub(super) fn unpack(
    repository: &Repository,
    found: &Found,
    description: &Description,
    place: &Path,
) -> Result<()> {
    let parent = place.parent().context("a build without a directory")?;
    let content = repository.content(found, PACKED_MAX)?;
    let temporary = tempfile::Builder::new().prefix(".making-").tempdir_in(parent)?;
    let into = temporary.path().join("build");
    fs::create_dir(&into)?;
    let archive = temporary.path().join("archive.tar");
    let unpacked = zstd::Decoder::new(content.as_slice())?.take(UNPACKED_MAX + 1);
    let bytes = io::copy(&mut { unpacked }, &mut File::create(&archive)?)
        .with_context(|| format!("`{}` of `{repository}` is not compressed with zstd", found.digest))?;
    ensure!(bytes <= UNPACKED_MAX, "`{}` of `{repository}` is too large", found.digest);
    Tool::new("tar")
        .args(["--extract", "--no-same-owner", "--no-same-permissions", "--file"])
        .arg(&archive)
        .arg("--directory")
        .arg(&into)
        .confined(Reach::new(&into).reading([&archive]))
        .run()
        .with_context(|| format!("cannot unpack `{}` of `{repository}`", found.digest))?;
    settle(&into, description, place)?;
    fs::write(into.join(DESCRIPTION), serde_json::to_vec(description)?)?;
    if place.exists() {
        // What an interrupted build left.
        fs::remove_dir_all(place)?;
    }
    Ok(fs::rename(&into, place)?)
}

/// Makes kbuild's references to the source lead to where it is now.
fn settle(into: &Path, description: &Description, place: &Path) -> Result<()> {
    let output = crate::host::beneath::directory_beneath(into, "output")?;
    let makefile = crate::host::beneath::read_beneath(&output, "Makefile", 1 << 20)?;
    let mut makefile = String::from_utf8(makefile)?;
    for (from, to) in description.roots.iter().zip(["output", "source"]) {
        makefile = makefile.replace(&*from.to_string_lossy(), &place.join(to).to_string_lossy());
    }
    fs::remove_file(output.join("Makefile"))?;
    fs::write(output.join("Makefile"), makefile)?;
    Ok(symlink(place.join("source"), output.join("source"))?)
}
