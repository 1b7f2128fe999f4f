//! `guest/userland/NAME.yaml` → a Debian arm64 tree in the cache: packages that apt resolves and
//! downloads, unpacked but not configured, plus the fixups that this requires.
//!
//! The tree is shared, so guests must not write to it.

use crate::{
    cache::{Cache, KeyBuilder},
    context::Lab,
    host::{
        apt::{Apt, Choice, Side},
        deb,
    },
    scenario::{PackageName, UserlandSpec},
};
use anyhow::{Context, Result, anyhow, bail, ensure};
use fs_err::{self as fs, os::unix::fs::symlink};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs::Permissions,
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

/// Raised when entries must be rebuilt for a reason that the rest of the key does not cover.
const LAYOUT: &str = "2";

/// The maximum size of a file of packages.
const FILE_MAX: u64 = 64 << 10;

/// The description of a userland.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Userland {
    /// The Debian suite.
    suite: String,
    /// The guest's memory, in QEMU's notation.
    memory: String,
    /// The packages to install, without their dependencies.
    packages: Vec<PackageName>,
}

/// A file that an unpacked tree lacks because its packages are not configured.
struct FixUp {
    path: &'static str,
    what: What,
    #[expect(dead_code, reason = "documents the table")]
    why: &'static str,
}

/// The kind of file to create.
#[derive(Clone, Copy, Debug)]
enum What {
    Directory,
    Link(&'static str),
    Text(&'static str),
    Script(&'static str),
}

const FIX_UPS: [FixUp; 13] = [
    FixUp { path: "mnt", what: What::Directory, why: "no package has it; vmtest mounts a tmpfs there" },
    FixUp {
        path: "var/run",
        what: What::Link("/run"),
        why: "base-files has a directory, and its maintainer script the link; qemu-ga writes there",
    },
    FixUp {
        path: "var/tmp",
        what: What::Link("/tmp"),
        why: "crash and others write there, and the tree must not be written to",
    },
    FixUp { path: "workloads", what: What::Directory, why: "the agent mounts a tmpfs there" },
    FixUp { path: "modules", what: What::Directory, why: "as workloads" },
    FixUp {
        path: "usr/lib/modules",
        what: What::Directory,
        why: "a script mounts a tmpfs there for tools that load modules themselves",
    },
    FixUp {
        path: "usr/bin/sh",
        what: What::Link("bash"),
        why: "the maintainer script of dash would link it",
    },
    FixUp { path: "usr/bin/awk", what: What::Link("gawk"), why: "update-alternatives would link it" },
    FixUp { path: "usr/bin/which", what: What::Link("which.debianutils"), why: "as awk" },
    FixUp {
        path: "etc/passwd",
        what: What::Text("root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"),
        why: "base-passwd's maintainer script makes it; selftests need an owner other than root",
    },
    FixUp { path: "etc/group", what: What::Text("root:x:0:\nnogroup:x:65534:\n"), why: "as passwd" },
    FixUp {
        path: "usr/sbin/poweroff",
        what: What::Script("#!/bin/sh\necho o >/proc/sysrq-trigger\n"),
        why: "it belongs to a complete init system; vmtest's /init ends with it",
    },
    FixUp {
        path: "usr/sbin/mount.cgroup2",
        what: What::Script("#!/bin/sh\nexit 0\n"),
        why: "the lab's kernels have no CGROUPS, and vmtest's /init exits if it cannot mount them",
    },
];

/// The userlands of a repository, and the trees resolved so far.
#[derive(Clone, Debug)]
pub struct Userlands {
    lab: Lab,
    files: PathBuf,
    /// Trees by suite and packages, since asking apt takes a second.
    known: Arc<Mutex<BTreeMap<(String, UserlandSpec), PathBuf>>>,
}

/// A userland, unpacked.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The root directory.
    pub path: PathBuf,
    /// The guest's memory, in QEMU's notation.
    pub memory: String,
}

impl Userlands {
    /// Uses the userlands in the directory `files`, `guest/userland`.
    pub fn new(lab: &Lab, files: PathBuf) -> Userlands {
        Userlands { lab: lab.clone(), files, known: Arc::default() }
    }

    /// The cache of the trees and of other files for userlands.
    pub fn cache(&self) -> &Cache {
        &self.lab.cache
    }

    /// The lab that they are fetched for.
    pub(super) fn lab(&self) -> &Lab {
        &self.lab
    }

    /// Returns the Debian suite of a userland.
    pub(super) fn suite(&self, wanted: &UserlandSpec) -> Result<String> {
        Ok(Userland::load(&self.files, wanted.name.as_str())?.suite)
    }

    /// Returns a tree with this package of a suite for the host, to run its programs.
    pub(super) fn host_tree(&self, suite: &str, package: &str) -> Result<PathBuf> {
        tree(&self.lab, package, suite, Side::Host, &[package])
    }

    /// Returns the tree, fetched if the versions that the suite has now are not in the cache.
    pub fn tree(&self, wanted: &UserlandSpec) -> Result<Tree> {
        let userland = Userland::load(&self.files, wanted.name.as_str())?;
        let mut known = self.known.lock().map_err(|_| anyhow!("a worker panicked"))?;
        let key = (userland.suite.clone(), wanted.clone());
        let path = match known.get(&key) {
            Some(path) => path.clone(),
            None => {
                let packages: Vec<&str> =
                    userland.packages.iter().chain(&wanted.packages).map(PackageName::as_str).collect();
                let name = wanted.name.as_str();
                let path = tree(&self.lab, name, &userland.suite, Side::Guest, &packages)?;
                known.insert(key, path.clone());
                path
            }
        };
        Ok(Tree { path, memory: userland.memory })
    }
}

/// Returns the tree of these packages and their dependencies.
fn tree(lab: &Lab, name: &str, suite: &str, side: Side, packages: &[&str]) -> Result<PathBuf> {
    let apt = Apt::open(lab)?;
    let choices = apt.choose(suite, side, packages)?;
    let mut versions = String::new();
    for Choice { name, version, architecture } in &choices {
        writeln!(versions, "{name} {version} {architecture}")?;
    }
    let fix_ups = FIX_UPS.map(|fix_up| format!("{} {:?}", fix_up.path, fix_up.what)).join("\n");
    let key = KeyBuilder::default()
        .input("layout", LAYOUT)
        .input("suite", suite)
        .input("versions", versions)
        .input("fix-ups", fix_ups)
        .finish(&format!("{name}-{suite}"));
    let waiting =
        || lab.progress.line(format!("waiting for another process that is fetching the userland {name}"));
    let entry = lab.cache.entry("userlands", &key, waiting, |into| {
        let task = lab.progress.task(format!("unpacking the userland {name}"), Some(choices.len() as u64));
        let debs = into.join("debs");
        fs::create_dir(&debs)?;
        let wanted: Vec<String> = choices.iter().map(Choice::exactly).collect();
        let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
        let tree = into.join("tree");
        for (done, package) in apt.fetch(suite, &wanted, &debs)?.iter().enumerate() {
            deb::unpack(&package.deb, &tree)?;
            task.set(done as u64 + 1);
        }
        fs::remove_dir_all(&debs)?;
        Ok(FIX_UPS.iter().try_for_each(|fix_up| fix_up.apply(&tree))?)
    })?;
    Ok(entry.join("tree"))
}

impl Userland {
    fn load(files: &Path, name: &str) -> Result<Userland> {
        let path = files.join(name).with_extension("yaml");
        if !path.is_file() {
            let known = fs::read_dir(files).into_iter().flatten().flatten();
            let known =
                known.filter_map(|file| Some(file.path().file_stem()?.to_string_lossy().into_owned()));
            let mut known: Vec<String> = known.collect();
            known.sort();
            bail!("no userland `{name}`; there are {}", known.join(", "));
        }
        let read = || -> Result<Userland> {
            ensure!(path.metadata()?.len() <= FILE_MAX, "it is larger than {} KiB", FILE_MAX >> 10);
            Userland::parse(&fs::read_to_string(&path)?)
        };
        read().with_context(|| format!("cannot read the userland `{}`", path.display()))
    }

    fn parse(text: &str) -> Result<Userland> {
        let userland: Userland = crate::yaml::from_str(text)?;
        ensure!(!userland.packages.is_empty(), "packages: expected at least one");
        Ok(userland)
    }
}

impl FixUp {
    /// Creates the file unless a package contains it. An empty directory is replaced by a link.
    fn apply(&self, tree: &Path) -> io::Result<()> {
        let path = tree.join(self.path);
        if matches!(self.what, What::Link(_)) {
            // Fails for anything but an empty directory.
            let _ = fs::remove_dir(&path);
        }
        if path.symlink_metadata().is_ok() {
            return Ok(());
        }
        fs::create_dir_all(path.parent().unwrap_or(tree))?;
        match self.what {
            What::Directory => fs::create_dir(&path),
            What::Link(target) => symlink(target, &path),
            What::Text(text) => fs::write(&path, text),
            What::Script(text) => fs::write(&path, text)
                .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o755))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_userland_is_a_suite_and_packages() {
        let userland = Userland::parse("{ suite: trixie, memory: 2G, packages: [bash, gcc] }");
        let userland = userland.unwrap();
        assert_eq!(userland.packages.iter().map(PackageName::as_str).collect::<Vec<_>>(), ["bash", "gcc"]);
        let check = |text: &str, expect: &str| {
            let error = format!("{:#}", Userland::parse(text).unwrap_err());
            assert!(error.contains(expect), "`{expect}` is not in `{error}`");
        };
        check("{ suite: trixie, memory: 1G, packages: [] }", "packages: expected at least one");
        check("{ suite: x, memory: 1G, packages: [--download-only] }", "the name of a Debian package");
        check("{ suite: x, memory: 1G, packages: [bash], mirror: x }", "unknown field `mirror`");
        check("{ memory: 1G, packages: [bash] }", "missing field `suite`");
    }

    #[test]
    fn another_name_is_told_with_those_that_are_there() {
        let files = tempfile::tempdir().unwrap();
        fs::write(files.path().join("base.yaml"), "").unwrap();
        let error = Userland::load(files.path(), "bass").unwrap_err();
        assert_eq!(format!("{error}"), "no userland `bass`; there are base");
    }

    #[test]
    fn what_a_package_brought_is_left_alone() {
        let tree = tempfile::tempdir().unwrap();
        for directory in ["usr/sbin", "usr/bin/sh/full", "var/run"] {
            fs::create_dir_all(tree.path().join(directory)).unwrap();
        }
        fs::write(tree.path().join("usr/sbin/poweroff"), "real").unwrap();
        FIX_UPS.iter().try_for_each(|fix_up| fix_up.apply(tree.path())).unwrap();
        assert_eq!(fs::read_to_string(tree.path().join("usr/sbin/poweroff")).unwrap(), "real");
        assert!(tree.path().join("usr/bin/sh/full").is_dir());
        assert_eq!(fs::read_link(tree.path().join("var/run")).unwrap(), Path::new("/run"));
        let mode = tree.path().join("usr/sbin/mount.cgroup2").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
    }
}
