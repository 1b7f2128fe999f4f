//! Debian's Rust compiler with the standard library for arm64, unpacked in the cache.
//!
//! Its packages are fetched with all dependencies, including the C library, on which the compiler runs,
//! so that it works on any host. Programs that it starts, the linker above all, are the host's. Its
//! version is the one that the suite had on the day of the download; remove the entry from the cache to
//! fetch the current one.

use crate::{
    cache::KeyBuilder,
    context::Lab,
    host::{
        apt::{Apt, Package},
        deb,
        process::{Tool, write_program},
    },
};
use anyhow::{Context, Result, bail};
use fs_err as fs;
use std::{
    collections::BTreeSet,
    env::consts::ARCH,
    path::{Path, PathBuf},
};

/// A suite whose compiler is recent enough.
const SUITE: &str = "trixie";

/// Raised when entries must be rebuilt for a reason that the rest of the key does not cover.
const LAYOUT: &str = "1";

/// The packages to start from: the compiler, and the standard library for the guest.
const COMPILER: &str = "rustc-web";
const LIBRARY: &str = "libstd-rust-web-dev";

/// Dependencies that are not fetched: the host has a linker for its own programs, and the last package
/// is empty.
const HOSTS_OWN: [&str; 4] = ["gcc", "libc-dev", "binutils", "gcc-14-base"];

/// A compiler, and the string that identifies it in keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DebianRust {
    pub(super) rustc: PathBuf,
    pub(super) identity: String,
}

/// Returns the compiler in the cache, fetched if necessary.
pub(super) fn obtain(lab: &Lab) -> Result<DebianRust> {
    let key = KeyBuilder::default()
        .input("layout", LAYOUT)
        .input("suite", SUITE)
        .input("start", format!("{COMPILER} {LIBRARY}"))
        .input("host", ARCH)
        .finish("debian-rust");
    let waiting = || lab.progress.line("waiting for another process that is fetching Debian's Rust compiler");
    let entry = lab.cache.entry("toolchains", &key, waiting, |into| {
        let apt = Apt::open(lab)?;
        let _task = lab.progress.task("fetching Debian's Rust compiler for the guest", None);
        make(&apt, &lab.cache.root().join("toolchains").join(key.as_str()), into)
    })?;
    let versions = entry.join("versions");
    let identity = fs::read_to_string(&versions)
        .with_context(|| format!("corrupt cache entry: remove `{}` and try again", entry.display()))?;
    Ok(DebianRust { rustc: entry.join("rustc"), identity })
}

/// Fills the directory `into`, which is later renamed to `home`.
fn make(apt: &Apt, home: &Path, into: &Path) -> Result<()> {
    let debs = into.join("debs");
    let root = into.join("root");
    fs::create_dir_all(&debs)?;
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
            // Skip the dependencies of the guest's library, which only a guest that compiles needs.
            if package.name == LIBRARY && package.architecture == "arm64" && ARCH != "aarch64" {
                continue;
            }
            wanted.extend(depends(&package)?.into_iter().filter(|name| asked.insert(name.clone())));
        }
    }
    fs::remove_dir_all(&debs)?;
    fs::write(into.join("versions"), versions.into_iter().collect::<String>())?;
    write_program(&into.join("rustc"), &script(&root, &home.join("root"))?)
}

/// Returns the dependencies of a package, except those in [`HOSTS_OWN`].
fn depends(package: &Package) -> Result<Vec<String>> {
    let field = Tool::new("dpkg-deb")
        .arg("--field")
        .arg(&package.deb)
        .arg("Depends")
        .run()
        .with_context(|| format!("cannot read the dependencies of `{}`", package.name))?;
    Ok(names(&field))
}

/// Returns the names in a `Depends` field, without versions; of alternatives, the first.
fn names(field: &str) -> Vec<String> {
    let name = |dependency: &str| {
        dependency.trim().split([' ', '(', '|', ':']).next().unwrap_or_default().to_owned()
    };
    let names = field.split(',').map(name);
    names.filter(|name| !name.is_empty() && !HOSTS_OWN.contains(&name.as_str())).collect()
}

/// Returns the script that is run as `rustc`. It calls the loader explicitly, since the host's may be
/// older than this C library, and passes it the library path as an argument: through the environment it
/// would also reach the host's linker.
fn script(root: &Path, home: &Path) -> Result<String> {
    let (libraries, loader) = match ARCH {
        "x86_64" => ("usr/lib/x86_64-linux-gnu", "ld-linux-x86-64.so.2"),
        "aarch64" => ("usr/lib/aarch64-linux-gnu", "ld-linux-aarch64.so.1"),
        other => {
            bail!("Debian's Rust compiler is supported on x86_64 and aarch64 hosts only, not on `{other}`")
        }
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
