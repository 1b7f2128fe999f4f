//! Sources without a network: file URLs, local repositories and trees.

use super::*;
use crate::{
    host::{git::apart, whole::write_whole},
    kernel::resolved::{known, remembered},
};
use std::{path::PathBuf, thread::sleep, time::Duration};

const MAKEFILE: &str = "# SPDX-License-Identifier: GPL-2.0\nVERSION = 7\nPATCHLEVEL = 2\nSUBLEVEL = 0\n\
                        EXTRAVERSION = -rc3\nNAME = x\n";

struct Place {
    directory: tempfile::TempDir,
    lab: Lab,
}

impl Place {
    /// Makes a cache, and next to it a tree that looks like a kernel.
    fn new() -> Place {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("linux/kernel")).unwrap();
        fs::write(directory.path().join("linux/Makefile"), MAKEFILE).unwrap();
        let lab = Lab::alone(directory.path()).unwrap();
        Place { directory, lab }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn obtain(&self, spec: &SourceSpec) -> Result<Source> {
        obtain(&self.lab, spec)
    }

    fn run(&self, command: &str) -> String {
        apart(Tool::new("sh")).args(["-ec", command]).directory(self.directory.path()).run().unwrap()
    }

    fn tarball(&self) -> (String, String) {
        let sha256 = self.run("tar -cf linux.tar linux && sha256sum linux.tar | cut -c -64");
        (format!("file://{}", self.path("linux.tar").display()), sha256.trim().to_owned())
    }
}

#[test]
fn a_tarball_is_checked_and_kept() {
    let place = Place::new();
    let (url, sha256) = place.tarball();
    let spec = SourceSpec::Tarball { url, sha256 };
    let source = place.obtain(&spec).unwrap();
    assert_eq!((source.label.as_str(), &source.headers), ("7.2-rc3", &None));
    assert!(source.directory.join("kernel").is_dir());
    // The cache has it, so the file is no longer needed.
    fs::remove_file(place.path("linux.tar")).unwrap();
    assert_eq!(place.obtain(&spec).unwrap().key, source.key);
}

#[test]
fn a_wrong_or_truncated_tarball_names_both_digests_and_leaves_nothing() {
    let place = Place::new();
    let (url, sha256) = place.tarball();
    File::options().write(true).open(place.path("linux.tar")).unwrap().set_len(3000).unwrap();
    let cut = sha256_of(&place.path("linux.tar")).unwrap();
    let error = place.obtain(&SourceSpec::Tarball { url, sha256: sha256.clone() }).unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains(&cut) && text.contains(&sha256) && text.contains("3000 bytes"), "{text}");
    assert_eq!(fs::read_dir(place.path("cache/sources")).unwrap().count(), 0);
}

#[test]
fn a_tarball_that_is_not_there_or_no_kernel_is_named() {
    let place = Place::new();
    let url = "file:///no/such.tar".to_owned();
    let error = place.obtain(&SourceSpec::Tarball { url, sha256: "0".repeat(64) }).unwrap_err();
    assert!(format!("{error:#}").contains("cannot download `file:///no/such.tar`"), "{error:#}");
    fs::remove_file(place.path("linux/Makefile")).unwrap();
    let (url, sha256) = place.tarball();
    let error = place.obtain(&SourceSpec::Tarball { url, sha256 }).unwrap_err();
    assert!(format!("{error:#}").contains("no kernel source in"), "{error:#}");
}

#[test]
fn a_git_branch_stays_what_it_was_until_it_is_forgotten() {
    let place = Place::new();
    let commit = "cd linux && git -c user.name=a -c user.email=a commit --quiet -m x && git rev-parse HEAD";
    place.run("git init --quiet -b next linux && cd linux && git add .");
    let first = place.run(commit);
    let spec = SourceSpec::Git { url: place.path("linux").display().to_string(), reference: "next".into() };
    let source = place.obtain(&spec).unwrap();
    assert_eq!(source.label, first[..12]);
    place.run("cd linux && echo >> Makefile && git add .");
    let second = place.run(commit);
    assert_eq!(place.obtain(&spec).unwrap().label, first[..12]);
    forget(&place.lab.cache, &spec).unwrap();
    assert_eq!(place.obtain(&spec).unwrap().label, second[..12]);
    // A commit does not depend on the branch.
    assert_eq!(place.obtain(&spec.exactly(first.trim()).unwrap()).unwrap().key, source.key);
    assert_eq!(known(&place.lab.cache, &spec).unwrap().as_deref(), Some(second.trim()));
    let error = spec.exactly("--upload-pack=x").unwrap_err();
    assert!(error.contains("is not a commit"), "{error}");
    let missing = SourceSpec::Git { url: place.path("linux").display().to_string(), reference: "v9".into() };
    let error = place.obtain(&missing).unwrap_err();
    assert!(format!("{error:#}").contains("cannot find `v9`"), "{error:#}");
}

#[test]
fn a_version_is_no_word_for_apt() {
    let spec =
        SourceSpec::Debian { suite: "trixie".into(), package: "linux-source-6.12".into(), version: None };
    for version in ["", "-o=x", "6.12/sid", "6.12 x", "x", &"1".repeat(101)] {
        let error = spec.exactly(version).unwrap_err();
        assert!(error.contains("is not a Debian package version"), "{error}");
    }
}

#[test]
fn an_annotated_tag_stands_for_its_commit() {
    let place = Place::new();
    let name = "git -c user.name=a -c user.email=a";
    place.run("git init --quiet linux && cd linux && git add .");
    let commit =
        place.run(&format!("cd linux && {name} commit -qm x && {name} tag -am x v7.2 && git rev-parse HEAD"));
    let url = place.path("linux").display().to_string();
    let source = place.obtain(&SourceSpec::Git { url, reference: "v7.2".into() }).unwrap();
    assert_eq!(source.label, commit[..12]);
}

#[test]
fn a_trees_key_follows_its_files() {
    let place = Place::new();
    let spec = SourceSpec::Tree("linux".into());
    let key = |place: &Place| place.obtain(&spec).unwrap().key;
    let first = key(&place);
    assert_eq!(first, key(&place));
    sleep(Duration::from_millis(10));
    fs::write(place.path("linux/kernel/fork.c"), "int x;").unwrap();
    let second = key(&place);
    assert_ne!(first, second);
    // The same size, but a later mtime.
    sleep(Duration::from_millis(10));
    fs::write(place.path("linux/kernel/fork.c"), "int y;").unwrap();
    assert_ne!(second, key(&place));
}

#[test]
fn a_git_trees_key_follows_its_commit_and_its_changes() {
    let place = Place::new();
    place.run(
        "git init --quiet linux && cd linux && git add . && git -c user.name=a -c user.email=a commit -qm x",
    );
    let spec = SourceSpec::Tree("linux".into());
    let clean = place.obtain(&spec).unwrap();
    // Touched, but with the same contents.
    fs::write(place.path("linux/Makefile"), MAKEFILE).unwrap();
    assert_eq!(clean.key, place.obtain(&spec).unwrap().key);
    fs::write(place.path("linux/Makefile"), format!("{MAKEFILE}# changed\n")).unwrap();
    let dirty = place.obtain(&spec).unwrap();
    assert_ne!(clean.key, dirty.key);
    assert!(dirty.label.ends_with("-dirty") && !clean.label.ends_with("-dirty"), "{dirty:?}");
    fs::write(place.path("linux/new.c"), "").unwrap();
    let with_new = place.obtain(&spec).unwrap();
    assert_ne!(dirty.key, with_new.key);
    // Only what others read counts as a header: not the new C file, but the changed Makefile.
    assert_eq!(dirty.headers, with_new.headers);
    assert_ne!(clean.headers, dirty.headers);
    fs::write(place.path("linux/new.h"), "").unwrap();
    assert_ne!(dirty.headers, place.obtain(&spec).unwrap().headers);
}

#[test]
fn a_tree_that_was_built_in_is_refused() {
    let place = Place::new();
    fs::write(place.path("linux/.config"), "").unwrap();
    let error = format!("{:#}", place.obtain(&SourceSpec::Tree("linux".into())).unwrap_err());
    assert!(error.contains("has `.config` of a build") && error.contains("mrproper"), "{error}");
    let error = format!("{:#}", place.obtain(&SourceSpec::Tree("no-such".into())).unwrap_err());
    assert!(error.contains("cannot find the kernel tree"), "{error}");
}

#[test]
fn a_pinned_version_is_not_looked_up() {
    let place = Place::new();
    let spec = SourceSpec::Debian {
        suite: "no-such-suite".into(),
        package: "linux-source-6.12".into(),
        version: Some("6.12.94-1".parse().unwrap()),
    };
    let Named { key, version, .. } = identify(&place.lab, &spec).unwrap();
    assert_eq!(
        (key.as_str(), version.to_string()),
        (debian_key("linux-source-6.12", "6.12.94-1").as_str(), "6.12.94".into())
    );
    let SourceSpec::Debian { suite, package, .. } = spec else { unreachable!() };
    // The unpinned package is a different source, and resolves independently of the pinned one.
    let unpinned = SourceSpec::Debian { suite, package, version: None };
    write_whole(&remembered(&place.lab.cache, &unpinned).unwrap(), "6.12.107-1\n").unwrap();
    let Named { key: other, version, .. } = identify(&place.lab, &unpinned).unwrap();
    assert_ne!(other, key);
    assert_eq!(version.to_string(), "6.12.107");
}
