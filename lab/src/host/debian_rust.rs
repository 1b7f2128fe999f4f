//! Debian's Rust compilers and their tools, unpacked in the cache: for programs of the guest, and for kernels.
//!
//! Packages are fetched with all dependencies, including the C library, on which the programs run,
//! so that they work on any host. Programs that they start, the linker above all, are the host's. Their
//! version is the one that the suite had on the day of the download; remove the entry from the cache to
//! fetch the current one.

use super::{
    apt::{Apt, Package},
    deb,
    process::{Tool, write_program},
};
use crate::{cache::KeyBuilder, context::Lab};
use anyhow::{Context, Result, bail};
use fs_err as fs;
use std::{
    collections::BTreeSet,
    env::consts::ARCH,
    path::{Path, PathBuf},
};

/// A suite whose compilers are recent enough.
const SUITE: &str = "trixie";

/// Raised when entries must be rebuilt for a reason that the rest of the key does not cover.
const LAYOUT: &str = "1";

/// Dependencies that are not fetched: the host has a linker for its own programs, the next package is empty,
/// and of clang, bindgen needs nothing but a library.
const NOT_FETCHED: [&str; 5] = ["gcc", "libc-dev", "binutils", "gcc-14-base", "libclang-dev"];

/// Programs to fetch.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// The name of their entry in the cache.
    name: &'static str,
    /// What they are for.
    purpose: &'static str,
    /// The packages to start from.
    packages: &'static [&'static str],
    /// The package with the standard library for arm64.
    library: Option<&'static str>,
    programs: &'static [&'static str],
}

/// The compiler of programs that run in the guest.
pub(crate) const FOR_THE_GUEST: Wanted = Wanted {
    name: "debian-rust",
    purpose: "Debian's Rust compiler for the guest",
    packages: &["rustc-web"],
    library: Some("libstd-rust-web-dev"),
    programs: &["rustc"],
};

/// What kbuild compiles Rust with. The standard library's `core` is compiled from source, for the kernel.
pub(crate) const FOR_KERNELS: Wanted = Wanted {
    name: "debian-kernel-rust",
    purpose: "Debian's Rust compiler for kernels",
    packages: &["rustc", "rust-src", "bindgen", "libclang1-19"],
    library: None,
    programs: &["rustc", "bindgen"],
};

/// Programs in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DebianRust {
    /// The directory with a script for each.
    pub(crate) directory: PathBuf,
    /// Identifies them in keys.
    pub(crate) identity: String,
}

impl DebianRust {
    /// Returns the path of a program.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Returns the source of the standard library.
    ///
    /// # Errors
    /// It was not fetched.
    pub(crate) fn library_source(&self) -> Result<PathBuf> {
        let sources = fs::read_dir(self.directory.join("root/usr/src"))?;
        let mut libraries = sources.flatten().map(|entry| entry.path().join("library"));
        libraries
            .find(|library| library.is_dir())
            .context("Debian's packages have no source of Rust's `core`")
    }
}

/// Returns the programs in the cache, fetched if necessary.
pub(crate) fn obtain(lab: &Lab, wanted: &Wanted) -> Result<DebianRust> {
    let starts = wanted.packages.iter().chain(&wanted.library).copied().collect::<Vec<_>>();
    let key = KeyBuilder::default()
        .input("layout", LAYOUT)
        .input("suite", SUITE)
        .input("start", starts.join(" "))
        .input("host", ARCH)
        .finish(wanted.name);
    let waiting =
        || lab.progress.line(format!("waiting for another process that is fetching {}", wanted.purpose));
    let entry = lab.cache.entry("toolchains", &key, waiting, |into| {
        let apt = Apt::open(lab)?;
        let _task = lab.progress.task(format!("fetching {}", wanted.purpose), None);
        wanted.make(&apt, &lab.cache.root().join("toolchains").join(key.as_str()), into)
    })?;
    let identity = fs::read_to_string(entry.join("versions"))
        .with_context(|| format!("corrupt cache entry: remove `{}` and try again", entry.display()))?;
    Ok(DebianRust { directory: entry, identity })
}

impl Wanted {
    /// Fills the directory `into`, which is later renamed to `home`.
    fn make(&self, apt: &Apt, home: &Path, into: &Path) -> Result<()> {
        let debs = into.join("debs");
        let root = into.join("root");
        fs::create_dir_all(&debs)?;
        let mut versions = BTreeSet::new();
        let mut names: Vec<String> = self.packages.iter().map(|&package| package.to_owned()).collect();
        let mut asked: BTreeSet<String> = names.iter().cloned().collect();
        // On an arm64 host the compiler's own library is the guest's.
        let for_guest = self.library.filter(|_| ARCH != "aarch64");
        names.extend(for_guest.map(|library| format!("{library}:arm64")));
        while !names.is_empty() {
            let wanted: Vec<&str> = names.iter().map(String::as_str).collect();
            let packages = apt.fetch(SUITE, &wanted, &debs)?;
            names.clear();
            for package in packages {
                deb::unpack(&package.deb, &root)?;
                versions.insert(format!("{} {} {}\n", package.name, package.version, package.architecture));
                // Skip the dependencies of the guest's library, which only a guest that compiles needs.
                if package.architecture == "arm64" && Some(package.name.as_str()) == for_guest {
                    continue;
                }
                names.extend(depends(&package)?.into_iter().filter(|name| asked.insert(name.clone())));
            }
        }
        fs::remove_dir_all(&debs)?;
        fs::write(into.join("versions"), versions.into_iter().collect::<String>())?;
        self.programs.iter().try_for_each(|program| {
            write_program(&into.join(program), &script(program, &root, &home.join("root"))?)
        })
    }
}

/// Returns the dependencies of a package, except those in [`NOT_FETCHED`].
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
    names.filter(|name| !name.is_empty() && !NOT_FETCHED.contains(&name.as_str())).collect()
}

/// Returns the script that is run as `program`. It calls the loader explicitly, since the host's may be
/// older than this C library, and passes it the library path as an argument: through the environment it
/// would also reach the host's linker.
fn script(program: &str, root: &Path, home: &Path) -> Result<String> {
    let (libraries, loader) = match ARCH {
        "x86_64" => ("usr/lib/x86_64-linux-gnu", "ld-linux-x86-64.so.2"),
        "aarch64" => ("usr/lib/aarch64-linux-gnu", "ld-linux-aarch64.so.1"),
        other => {
            bail!("Debian's Rust compiler is supported on x86_64 and aarch64 hosts only, not on `{other}`")
        }
    };
    for file in [root.join(libraries).join(loader), root.join("usr/bin").join(program)] {
        if !file.exists() {
            bail!("Debian's packages have no `{}`", file.display());
        }
    }
    let home = home.display().to_string();
    if home.contains('\'') {
        bail!("cannot use a cache directory with a quote in its name: `{home}`");
    }
    // bindgen loads libclang by its path.
    Ok(format!(
        "#!/bin/sh\n\
         # Debian's {program}, on its own C library.\n\
         root='{home}'\n\
         export LIBCLANG_PATH=\"$root/{libraries}\"\n\
         exec \"$root/{libraries}/{loader}\" --library-path \"$root/{libraries}\" \\\n\
         \t\"$root/usr/bin/{program}\" \"$@\"\n"
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
        let error = script("rustc", root.path(), Path::new("/home")).unwrap_err();
        assert!(format!("{error:#}").contains("have no"), "{error:#}");
    }
}
