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
};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::{
    fmt::Write as _,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

/// Raised when an entry has to be made anew for a reason that nothing else in its key shows.
const LAYOUT: &str = "1";

/// A file of packages that is longer is none.
const FILE_MAX: u64 = 64 << 10;

/// What a tree is made of.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Userland {
    /// The Debian suite.
    suite: String,
    /// The packages that are wanted for themselves.
    packages: Vec<String>,
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
    Script(&'static str),
}

const FIX_UPS: [FixUp; 5] = [
    FixUp { path: "mnt", what: What::Directory, why: "no package has it; vmtest mounts a tmpfs there" },
    FixUp {
        path: "var/run",
        what: What::Link("/run"),
        why: "base-files has a directory, and its maintainer script the link; qemu-ga writes there",
    },
    FixUp {
        path: "usr/bin/sh",
        what: What::Link("bash"),
        why: "dash would link it by its maintainer script",
    },
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

/// The tree that `guest/userland/NAME.yaml` below `root` describes, fetched if the suite has other
/// packages now than those that are in the cache.
pub fn tree(cache: &Cache, root: &Path, name: &str, progress: &Progress) -> Result<PathBuf> {
    let userland = Userland::load(&root.join("guest/userland").join(name).with_extension("yaml"))?;
    let apt = Apt::open(cache, progress)?;
    let packages: Vec<&str> = userland.packages.iter().map(String::as_str).collect();
    let choices = apt.choose_for_guest(&userland.suite, &packages)?;
    let mut versions = String::new();
    for Choice { name, version, architecture } in &choices {
        writeln!(versions, "{name} {version} {architecture}")?;
    }
    let fix_ups = FIX_UPS.map(|fix_up| format!("{} {:?}", fix_up.path, fix_up.what)).join("\n");
    let key = KeyBuilder::default()
        .input("layout", LAYOUT)
        .input("suite", &userland.suite)
        .input("versions", versions)
        .input("fix-ups", fix_ups)
        .finish(&format!("{name}-{}", userland.suite));
    let waiting = || progress.line(format!("another lab is fetching the userland {name}; waiting"));
    let entry = cache.entry("userlands", &key, waiting, |into| {
        let task = progress.task(format!("unpacking the userland {name}"), Some(choices.len() as u64));
        let debs = into.join("debs");
        fs::create_dir(&debs).with_context(|| format!("cannot make `{}`", debs.display()))?;
        let wanted: Vec<String> = choices.iter().map(Choice::exactly).collect();
        let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
        let tree = into.join("tree");
        for (done, package) in apt.fetch(&userland.suite, &wanted, &debs)?.iter().enumerate() {
            deb::unpack(&package.deb, &tree)?;
            task.set(done as u64 + 1);
        }
        fs::remove_dir_all(&debs).with_context(|| format!("cannot remove `{}`", debs.display()))?;
        FIX_UPS.iter().try_for_each(|fix_up| fix_up.apply(&tree))
    })?;
    Ok(entry.join("tree"))
}

impl Userland {
    fn load(path: &Path) -> Result<Userland> {
        let read = || -> Result<Userland> {
            ensure!(path.metadata()?.len() <= FILE_MAX, "it is longer than {} KiB", FILE_MAX >> 10);
            Userland::parse(&fs::read_to_string(path)?)
        };
        read().with_context(|| format!("cannot read the userland `{}`", path.display()))
    }

    fn parse(text: &str) -> Result<Userland> {
        let userland: Userland = serde_yaml::from_str(text)?;
        ensure!(!userland.packages.is_empty(), "packages: expected at least one");
        for package in &userland.packages {
            // As Debian's policy has it; what begins with a dash would be an option of apt's.
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
            if package.len() < 2 || package.starts_with(['+', '-', '.']) || !package.chars().all(plain) {
                bail!("packages: expected the name of a Debian package, found `{package}`");
            }
        }
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
        let userland = Userland::parse("{ suite: trixie, packages: [bash, libstdc++6] }").unwrap();
        assert_eq!(userland.packages, ["bash", "libstdc++6"]);
        let check = |text: &str, expect: &str| {
            let error = format!("{:#}", Userland::parse(text).unwrap_err());
            assert!(error.contains(expect), "`{expect}` is not in `{error}`");
        };
        check("{ suite: trixie, packages: [] }", "packages: expected at least one");
        check("{ suite: trixie, packages: [--download-only] }", "found `--download-only`");
        check("{ suite: trixie, packages: ['a b'] }", "found `a b`");
        check("{ suite: trixie, packages: [bash], mirror: x }", "unknown field `mirror`");
        check("{ packages: [bash] }", "missing field `suite`");
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
