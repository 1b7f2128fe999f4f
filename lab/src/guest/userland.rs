//! `guest/userland/NAME.yaml` → a Debian arm64 tree in the cache: packages that apt chooses and
//! downloads, unpacked and never configured, with what that leaves to be done by hand.
//!
//! The tree is shared: guests must not write to it.

use crate::{
    cache::{Cache, KeyBuilder},
    host::{
        apt::{Apt, Choice},
        deb,
    },
    progress::Progress,
    scenario::{PackageName, WantedUserland},
};
use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

/// Raised when an entry has to be made anew for a reason that nothing else in its key shows.
const LAYOUT: &str = "2";

/// A file of packages that is longer is none.
const FILE_MAX: u64 = 64 << 10;

/// What a tree is made of.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Userland {
    /// The Debian suite.
    suite: String,
    /// The guest's memory, as QEMU writes sizes.
    memory: String,
    /// The packages that are wanted for themselves.
    packages: Vec<PackageName>,
}

/// What an unpacked tree lacks, since it is not configured.
struct FixUp {
    path: &'static str,
    what: What,
    #[expect(dead_code, reason = "for whoever reads the table")]
    why: &'static str,
}

/// What is put there.
#[derive(Clone, Copy, Debug)]
enum What {
    Directory,
    Link(&'static str),
    Text(&'static str),
    Script(&'static str),
}

const FIX_UPS: [FixUp; 12] = [
    FixUp { path: "mnt", what: What::Directory, why: "no package has it; vmtest mounts a tmpfs there" },
    FixUp {
        path: "var/run",
        what: What::Link("/run"),
        why: "base-files has a directory, and its maintainer script the link; qemu-ga writes there",
    },
    FixUp {
        path: "var/tmp",
        what: What::Link("/tmp"),
        why: "crash and others write there, and the tree is not to be written to",
    },
    FixUp { path: "workloads", what: What::Directory, why: "the agent mounts a tmpfs there" },
    FixUp { path: "modules", what: What::Directory, why: "as workloads" },
    FixUp {
        path: "usr/bin/sh",
        what: What::Link("bash"),
        why: "dash would link it by its maintainer script",
    },
    FixUp { path: "usr/bin/awk", what: What::Link("gawk"), why: "update-alternatives would link it" },
    FixUp { path: "usr/bin/which", what: What::Link("which.debianutils"), why: "as awk" },
    FixUp {
        path: "etc/passwd",
        what: What::Text("root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"),
        why: "base-passwd's maintainer script makes it; selftests look for another owner than root",
    },
    FixUp { path: "etc/group", what: What::Text("root:x:0:\nnogroup:x:65534:\n"), why: "as passwd" },
    FixUp {
        path: "usr/sbin/poweroff",
        what: What::Script("#!/bin/sh\necho o >/proc/sysrq-trigger\n"),
        why: "it comes with a whole init system; vmtest's /init ends with it",
    },
    FixUp {
        path: "usr/sbin/mount.cgroup2",
        what: What::Script("#!/bin/sh\nexit 0\n"),
        why: "the lab's kernels have no CGROUPS, and vmtest's /init ends where it cannot mount them",
    },
];

/// The userlands of a repository, and what was found out about them so far.
#[derive(Clone, Debug)]
pub struct Userlands {
    cache: Cache,
    files: PathBuf,
    progress: Progress,
    /// Trees by suite and packages. To ask apt takes a second.
    known: Arc<Mutex<BTreeMap<(String, WantedUserland), PathBuf>>>,
}

/// A userland, unpacked.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The root directory.
    pub path: PathBuf,
    /// The guest's memory, as QEMU writes sizes.
    pub memory: String,
}

impl Userlands {
    /// Those of the directory `files`, `guest/userland`.
    pub fn new(cache: &Cache, files: PathBuf, progress: &Progress) -> Userlands {
        Userlands { cache: cache.clone(), files, progress: progress.clone(), known: Arc::default() }
    }

    /// Where trees are kept, and whatever else a userland is given.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The tree, fetched if the suite has other packages now than those in the cache.
    pub fn tree(&self, wanted: &WantedUserland) -> Result<Tree> {
        let userland = Userland::load(&self.files, wanted.name.as_str())?;
        let mut known = self.known.lock().map_err(|_| anyhow!("a worker panicked"))?;
        let key = (userland.suite.clone(), wanted.clone());
        let path = match known.get(&key) {
            Some(path) => path.clone(),
            None => {
                let packages: Vec<&str> =
                    userland.packages.iter().chain(&wanted.packages).map(PackageName::as_str).collect();
                let path =
                    tree(&self.cache, wanted.name.as_str(), &userland.suite, &packages, &self.progress)?;
                known.insert(key, path.clone());
                path
            }
        };
        Ok(Tree { path, memory: userland.memory })
    }
}

/// The tree of these packages and what they depend on.
fn tree(cache: &Cache, name: &str, suite: &str, packages: &[&str], progress: &Progress) -> Result<PathBuf> {
    let apt = Apt::open(cache, progress)?;
    let choices = apt.choose_for_guest(suite, packages)?;
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
    let waiting = || progress.line(format!("another lab is fetching the userland {name}; waiting"));
    let entry = cache.entry("userlands", &key, waiting, |into| {
        let task = progress.task(format!("unpacking the userland {name}"), Some(choices.len() as u64));
        let debs = into.join("debs");
        fs::create_dir(&debs).with_context(|| format!("cannot make `{}`", debs.display()))?;
        let wanted: Vec<String> = choices.iter().map(Choice::exactly).collect();
        let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
        let tree = into.join("tree");
        for (done, package) in apt.fetch(suite, &wanted, &debs)?.iter().enumerate() {
            deb::unpack(&package.deb, &tree)?;
            task.set(done as u64 + 1);
        }
        fs::remove_dir_all(&debs).with_context(|| format!("cannot remove `{}`", debs.display()))?;
        FIX_UPS.iter().try_for_each(|fix_up| fix_up.apply(&tree))
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
            bail!("no userland is called `{name}`; there are {}", known.join(", "));
        }
        let read = || -> Result<Userland> {
            ensure!(path.metadata()?.len() <= FILE_MAX, "it is longer than {} KiB", FILE_MAX >> 10);
            Userland::parse(&fs::read_to_string(&path)?)
        };
        read().with_context(|| format!("cannot read the userland `{}`", path.display()))
    }

    fn parse(text: &str) -> Result<Userland> {
        let userland: Userland = serde_yaml::from_str(text)?;
        ensure!(!userland.packages.is_empty(), "packages: expected at least one");
        Ok(userland)
    }
}

impl FixUp {
    /// Leaves alone what a package has brought, unless it is an empty directory in place of a link.
    fn apply(&self, tree: &Path) -> Result<()> {
        let path = tree.join(self.path);
        if matches!(self.what, What::Link(_)) {
            // Anything but an empty directory refuses.
            let _ = fs::remove_dir(&path);
        }
        if path.symlink_metadata().is_ok() {
            return Ok(());
        }
        let put = || -> Result<()> {
            fs::create_dir_all(path.parent().unwrap_or(tree))?;
            match self.what {
                What::Directory => fs::create_dir(&path)?,
                What::Link(target) => symlink(target, &path)?,
                What::Text(text) => fs::write(&path, text)?,
                What::Script(text) => {
                    fs::write(&path, text)?;
                    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
                }
            }
            Ok(())
        };
        put().with_context(|| format!("cannot make `{}`", path.display()))
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
        assert_eq!(format!("{error}"), "no userland is called `bass`; there are base");
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
