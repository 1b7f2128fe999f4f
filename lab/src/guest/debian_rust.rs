//! Debian's Rust compiler with the standard library for arm64, unpacked in the cache.
//!
//! Its packages come with all they depend on, the C library included, and the compiler runs on
//! those: so it works on any host, whatever that has. What it starts itself, the linker above all,
//! is the host's. Its version is what the suite had on the day it was fetched; removing the entry
//! from the cache fetches another.

use crate::{
    cache::{Cache, KeyBuilder},
    host::{
        apt::{Apt, Package},
        deb,
        process::{Tool, write_program},
    },
    progress::Progress,
};
use anyhow::{Context, Result, bail};
use std::{
    collections::BTreeSet,
    env::consts::ARCH,
    fs,
    path::{Path, PathBuf},
};

/// The suite whose compiler is new enough.
const SUITE: &str = "trixie";

/// Raised when an entry has to be made anew for a reason that nothing else in its key shows.
const LAYOUT: &str = "1";

/// Where it starts: the compiler, and the standard library for the guest.
const COMPILER: &str = "rustc-web";
const LIBRARY: &str = "libstd-rust-web-dev";

/// What packages depend on and need not come along: the host has a linker for its own programs, and
/// the last is empty.
const HOSTS_OWN: [&str; 4] = ["gcc", "libc-dev", "binutils", "gcc-14-base"];

/// A compiler and what names it in keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DebianRust {
    pub(super) rustc: PathBuf,
    pub(super) identity: String,
}

/// The compiler in the cache, fetched if it is not there yet.
pub(super) fn obtain(cache: &Cache, progress: &Progress) -> Result<DebianRust> {
    let key = KeyBuilder::default()
        .input("layout", LAYOUT)
        .input("suite", SUITE)
        .input("start", format!("{COMPILER} {LIBRARY}"))
        .input("host", ARCH)
        .finish("debian-rust");
    let waiting = || progress.line("another lab is fetching Debian's Rust compiler; waiting");
    let entry = cache.entry("toolchains", &key, waiting, |into| {
        let apt = Apt::open(cache, progress)?;
        let _task = progress.task("fetching Debian's Rust compiler for the guest", None);
        make(&apt, &cache.root().join("toolchains").join(key.as_str()), into)
    })?;
    let versions = entry.join("versions");
    let identity = fs::read_to_string(&versions).with_context(|| {
        format!("cannot read `{}`; remove `{}` to fetch it anew", versions.display(), entry.display())
    })?;
    Ok(DebianRust { rustc: entry.join("rustc"), identity })
}

/// Fills the directory `into`, which will be called `home`.
fn make(apt: &Apt, home: &Path, into: &Path) -> Result<()> {
    let debs = into.join("debs");
    let root = into.join("root");
    fs::create_dir_all(&debs).with_context(|| format!("cannot make `{}`", debs.display()))?;
    let mut versions = BTreeSet::new();
    let for_guest = format!("{LIBRARY}:arm64");
    let mut wanted = vec![COMPILER.to_owned()];
    let mut asked: BTreeSet<String> = wanted.iter().cloned().collect();
    // On an arm64 host the compiler's own library is the guest's.
    if ARCH != "aarch64" {
        wanted.push(for_guest);
    }
    while !wanted.is_empty() {
        let names: Vec<&str> = wanted.iter().map(String::as_str).collect();
        let packages = apt.fetch(SUITE, &names, &debs)?;
        wanted.clear();
        for package in packages {
            deb::unpack(&package.deb, &root)?;
            versions.insert(format!("{} {} {}\n", package.name, package.version, package.architecture));
            // The guest's library is wanted alone: what it depends on is for a guest that compiles.
            if package.name == LIBRARY && package.architecture == "arm64" && ARCH != "aarch64" {
                continue;
            }
            wanted.extend(depends(&package)?.into_iter().filter(|name| asked.insert(name.clone())));
        }
    }
    fs::remove_dir_all(&debs).with_context(|| format!("cannot remove `{}`", debs.display()))?;
    fs::write(into.join("versions"), versions.into_iter().collect::<String>())
        .context("cannot write the list of versions")?;
    write_program(&into.join("rustc"), &script(&root, &home.join("root"))?)
}

/// The names a package depends on, but for the host's own.
fn depends(package: &Package) -> Result<Vec<String>> {
    let field = Tool::new("dpkg-deb")
        .arg("--field")
        .arg(&package.deb)
        .arg("Depends")
        .run()
        .with_context(|| format!("cannot read what `{}` depends on", package.name))?;
    Ok(names(&field))
}

/// The names in a `Depends` field: of alternatives the first, without versions.
fn names(field: &str) -> Vec<String> {
    let name = |dependency: &str| {
        dependency.trim().split([' ', '(', '|', ':']).next().unwrap_or_default().to_owned()
    };
    let names = field.split(',').map(name);
    names.filter(|name| !name.is_empty() && !HOSTS_OWN.contains(&name.as_str())).collect()
}

/// The script that is called as `rustc`. The loader is named, since the host's may be older than the
/// C library here, and the libraries are named to it alone: in the environment they would reach the
/// host's linker too.
fn script(root: &Path, home: &Path) -> Result<String> {
    let (libraries, loader) = match ARCH {
        "x86_64" => ("usr/lib/x86_64-linux-gnu", "ld-linux-x86-64.so.2"),
        "aarch64" => ("usr/lib/aarch64-linux-gnu", "ld-linux-aarch64.so.1"),
        other => bail!("Debian's Rust compiler is set up on x86_64 and aarch64 hosts only, not `{other}`"),
    };
    for file in [root.join(libraries).join(loader), root.join("usr/bin/rustc")] {
        if !file.exists() {
            bail!("Debian's packages have no `{}`", file.display());
        }
    }
    let home = home.display().to_string();
    if home.contains('\'') {
        bail!("cannot use a cache directory with a quote in its name: `{home}`");
    }
    Ok(format!(
        "#!/bin/sh\n\
         # Debian's Rust compiler, on its own C library.\n\
         root='{home}'\n\
         exec \"$root/{libraries}/{loader}\" --library-path \"$root/{libraries}\" \\\n\
         \t\"$root/usr/bin/rustc\" \"$@\"\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_names_packages() {
        let check = |field: &str, expect: &[&str]| assert_eq!(names(field), expect, "{field}");
        check("libc6 (>= 2.38), liblzma5 (>= 5.1.1alpha+20120614)\n", &["libc6", "liblzma5"]);
        check(
            "rustc-web:any | rustc, gcc, libc-dev, binutils (>= 2.26), libllvm22",
            &["rustc-web", "libllvm22"],
        );
        check("", &[]);
    }

    #[test]
    fn the_script_is_only_written_for_what_is_there() {
        let root = tempfile::tempdir().unwrap();
        let error = script(root.path(), Path::new("/home")).unwrap_err();
        assert!(format!("{error:#}").contains("have no"), "{error:#}");
    }
}
