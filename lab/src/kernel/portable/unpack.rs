//! An archive of a registry → a build in the cache. Its paths cannot lead out of its directory: tar is confined to it.

use super::{DESCRIPTION, Description};
use crate::host::{
    beneath::{directory_beneath, read_beneath},
    confine::Reach,
    oci::{Found, Repository},
    process::Tool,
    whole::write_whole,
};
use anyhow::{Context, Result, ensure};
use fs_err::{self as fs, File};
use std::{
    io::{self, Read},
    os::unix::fs::symlink,
    path::{Component, Path},
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
    extract(&content, &archive, &into)
        .with_context(|| format!("cannot unpack `{}` of `{repository}`", found.digest))?;
    settle(&into, description, place)?;
    write_whole(&into.join(DESCRIPTION), serde_json::to_vec(description)?)?;
    if place.exists() {
        // What an interrupted build left.
        fs::remove_dir_all(place)?;
    }
    Ok(fs::rename(&into, place)?)
}

/// Unpacks `content` into the empty directory `into`; `archive` is a file to decompress it to.
fn extract(content: &[u8], archive: &Path, into: &Path) -> Result<()> {
    let mut unpacked = zstd::Decoder::new(content)?.take(UNPACKED_MAX + 1);
    let bytes =
        io::copy(&mut unpacked, &mut File::create(archive)?).context("it is not compressed with zstd")?;
    ensure!(bytes <= UNPACKED_MAX, "it is larger than {} MiB", UNPACKED_MAX >> 20);
    Tool::new("tar")
        .args(["--extract", "--no-same-owner", "--no-same-permissions", "--file"])
        .arg(archive)
        .arg("--directory")
        .arg(into)
        .confined(Reach::new(into).reading([archive]))
        .run()?;
    check_links(into, 0)
}

/// Refuses links that lead out of the directory `depth` levels above.
fn check_links(directory: &Path, depth: usize) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let (path, kind) = entry.map(|entry| (entry.path(), entry.file_type()))?;
        let kind = kind?;
        if kind.is_dir() {
            check_links(&path, depth + 1)?;
        } else if kind.is_symlink() {
            let target = fs::read_link(&path)?;
            let ups = target.components().take_while(|part| matches!(part, Component::ParentDir)).count();
            // Behind a name that is a link itself, `..` could lead anywhere.
            let is_plain = target.components().skip(ups).all(|part| matches!(part, Component::Normal(_)));
            ensure!(ups <= depth && is_plain, "its link `{}` leads out of it", path.display());
        } else {
            ensure!(kind.is_file(), "its `{}` is not a file", path.display());
        }
    }
    Ok(())
}

/// Makes kbuild's references to the source lead to where it is now.
fn settle(into: &Path, description: &Description, place: &Path) -> Result<()> {
    let output = directory_beneath(into, "output")?;
    let makefile = read_beneath(&output, "Makefile", 1 << 20)?;
    let mut makefile = String::from_utf8(makefile)?;
    for (from, to) in description.roots.iter().zip(["output", "source"]) {
        makefile = makefile.replace(&*from.to_string_lossy(), &place.join(to).to_string_lossy());
    }
    fs::remove_file(output.join("Makefile"))?;
    fs::write(output.join("Makefile"), makefile)?;
    Ok(symlink(place.join("source"), output.join("source"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Unpacks an archive with one link or file.
    fn check(name: &str, link: Option<&str>, expect: Option<&str>) {
        let mut archive = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        // `set_path` refuses what a hostile archive may have.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_mode(0o644);
        header.set_size(0);
        if let Some(link) = link {
            header.set_entry_type(tar::EntryType::Symlink);
            header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        }
        header.set_cksum();
        archive.append(&header, io::empty()).unwrap();
        let content = zstd::encode_all(archive.into_inner().unwrap().as_slice(), 1).unwrap();
        let place = tempfile::tempdir().unwrap();
        let into = place.path().join("build");
        fs::create_dir(&into).unwrap();
        let extracted = extract(&content, &place.path().join("archive.tar"), &into);
        let said = extracted.err().map(|error| format!("{error:#}"));
        match (expect, &said) {
            (None, None) => assert!(into.join(name).symlink_metadata().is_ok()),
            (Some(expect), Some(said)) => assert!(said.contains(expect), "{name}: {said}"),
            _ => panic!("{name}: {said:?}"),
        }
        assert!(!place.path().join("out").exists());
    }

    #[test]
    fn an_archive_leads_nowhere_else() {
        check("source/Makefile", None, None);
        check("source/a/link", Some("../b/file"), None);
        check("../out", None, Some("tar"));
        check("source/link", Some("/etc/passwd"), Some("leads out of it"));
        check("source/link", Some("../../out"), Some("leads out of it"));
        check("source/a/link", Some("x/../../y"), Some("leads out of it"));
    }

    #[test]
    fn what_is_no_archive_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let refused = extract(b"not zstd", &place.path().join("archive.tar"), place.path()).unwrap_err();
        assert!(format!("{refused:#}").contains("zstd"), "{refused:#}");
    }
}
