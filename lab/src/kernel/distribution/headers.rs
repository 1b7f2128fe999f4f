//! Prepares unpacked headers packages for building modules in the cache, on a host that may be older
//! than the packages.

use crate::host::process::write_program;
use anyhow::{Context, Result, bail, ensure};
use fs_err as fs;
use std::path::{Path, PathBuf};

/// kbuild's programs below `scripts` that run on the host when a module is built. The second name is
/// that of the real program, if the first only selects one by the kernel's word size and byte order.
const PROGRAMS: [(&str, &str); 3] =
    [("mod/modpost", "mod/modpost.real-lsb-64"), ("basic/fixdep", ""), ("genksyms/genksyms", "")];

/// Runs a program with the libc of its suite, which is next to the packages.
const WRAPPER: &str = r#"#!/bin/sh
libc=${0%/*}/../../../../../../libc
exec "$libc/loader" --library-path "$libc" "$0.elf" "$@"
"#;

/// Configuration symbols that describe the compiler the kernel was built with and may not hold for the
/// host's: `-fmin-function-alignment` came with gcc 14. Older compilers do not align `__cold` functions,
/// such as a module's init, and the kernel's write to the literal before one ends in a BUG (6.12).
/// Without these symbols no function is `__cold`, and `-falign-functions` suffices.
const OF_COMPILER: [&str; 2] = ["CC_HAS_MIN_FUNCTION_ALIGNMENT", "CC_HAS_SANE_FUNCTION_ALIGNMENT"];

/// The configuration in the headers, for make and for C.
const CONFIGURATIONS: [&str; 2] = ["include/config/auto.conf", "include/generated/autoconf.h"];

/// Arguments of make that turn off BTF of modules, which needs more than the headers provide: the kernel's
/// version of pahole.
pub(in crate::kernel) const MAKE_ARGUMENTS: [&str; 1] = ["CONFIG_DEBUG_INFO_BTF_MODULES="];

/// Returns the directory to build modules in, below the unpacked packages: the headers that have a
/// configuration.
pub(super) fn directory(packages: &Path) -> Result<PathBuf> {
    let sources = packages.join("usr/src");
    let entries = fs::read_dir(&sources)?;
    let mut found = entries.flatten().map(|entry| entry.path()).filter(|path| path.join(".config").is_file());
    match (found.next(), found.next()) {
        (Some(directory), None) => Ok(directory),
        _ => bail!("`{}` has none or several configured kernels, expected one", sources.display()),
    }
}

/// Returns the headers that all configurations share, next to those of this one.
pub(super) fn source(directory: &Path) -> Result<PathBuf> {
    Ok(directory.with_file_name(included(directory)?))
}

/// Returns the Makefile with /usr/src replaced by the directory it was unpacked to.
fn moved(makefile: &str) -> String {
    let sources = "sources := $(dir $(abspath $(lastword $(MAKEFILE_LIST))))..";
    format!("{sources}\n{}", makefile.replace("/usr/src/", "$(sources)/"))
}

/// Returns the name in `include /usr/src/NAME/Makefile`, the only line of the Makefile, except that since
/// 7.0 it also sets `KBUILD_OUTPUT` to the directory of the configuration.
fn included(directory: &Path) -> Result<String> {
    let path = directory.join("Makefile");
    let text = fs::read_to_string(&path)?;
    let name = text.lines().find_map(|line| line.strip_prefix("include ")?.rsplit('/').nth(1));
    let name = name.filter(|name| name.starts_with("linux-headers-"));
    Ok(name.with_context(|| format!("`{}` includes no headers", path.display()))?.to_owned())
}

/// Prepares the headers below `packages` for building modules. `libc6` is that package, unpacked; the
/// files of it that kbuild's programs need are copied to the new directory `libc`.
pub(super) fn prepare(packages: &Path, libc6: &Path, libc: &Path) -> Result<()> {
    let directory = directory(packages)?;
    included(&directory)?;
    let makefile = directory.join("Makefile");
    fs::write(&makefile, moved(&fs::read_to_string(&makefile)?))?;
    for path in CONFIGURATIONS.map(|name| directory.join(name)) {
        let text = fs::read_to_string(&path)?;
        fs::write(&path, without(&text, &OF_COMPILER))?;
    }
    keep_libc(libc6, libc)?;
    let scripts = fs::canonicalize(directory.join("scripts")).context("the headers have no scripts")?;
    ensure!(
        scripts.starts_with(fs::canonicalize(packages)?),
        "the scripts of the headers are outside of their packages, in `{}`",
        scripts.display()
    );
    for (name, real) in PROGRAMS {
        let program = scripts.join(name);
        let elf = scripts.join(format!("{name}.elf"));
        let real = Some(scripts.join(real)).filter(|path| path.is_file());
        fs::rename(real.as_ref().unwrap_or(&program), &elf)?;
        write_program(&program, WRAPPER)?;
    }
    Ok(())
}

/// Returns a configuration without the lines of these symbols.
fn without(configuration: &str, symbols: &[&str]) -> String {
    let names = |line: &str, symbol: &str| {
        let line = line.strip_prefix("#define ").unwrap_or(line);
        let rest = line.strip_prefix("CONFIG_").and_then(|line| line.strip_prefix(symbol));
        rest.is_some_and(|rest| rest.starts_with(['=', ' ']))
    };
    let lines = configuration.split_inclusive('\n');
    lines.filter(|line| !symbols.iter().any(|symbol| names(line, symbol))).collect()
}

/// Copies the dynamic loader, as `loader`, and the libraries next to it into the new directory `libc`.
fn keep_libc(libc6: &Path, libc: &Path) -> Result<()> {
    let parents = ["usr/lib", "lib"].map(|lib| libc6.join(lib));
    let inside =
        |path: &PathBuf| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let directories = parents.iter().flat_map(inside).filter(|path| path.join("libc.so.6").exists());
    let Some(from) = directories.into_iter().next() else { bail!("the package `libc6` has no libc.so.6") };
    fs::create_dir(libc)?;
    let mut loader = None;
    for path in inside(&from).filter(|path| path.is_file()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("ld-linux") {
            loader = Some(path.clone());
        }
        if name.contains(".so") {
            fs::copy(&path, libc.join(&name))?;
        }
    }
    let loader = loader.context("the package `libc6` has no dynamic loader")?;
    fs::copy(&loader, libc.join("loader"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_taken_out_of_both_forms() {
        let check = |text: &str, expect: &str| assert_eq!(without(text, &["A", "B_C"]), expect);
        check("CONFIG_A=y\nCONFIG_AB=y\nCONFIG_B_C=8\n", "CONFIG_AB=y\n");
        check("#define CONFIG_A 1\n#define CONFIG_D \"A\"\n", "#define CONFIG_D \"A\"\n");
    }

    #[test]
    fn the_headers_of_one_configuration_include_those_of_all() {
        let packages = tempfile::tempdir().unwrap();
        let sources = packages.path().join("usr/src");
        assert!(directory(packages.path()).is_err());
        let (one, all) = (sources.join("linux-headers-6.1.0-50-arm64"), "linux-headers-6.1.0-50-common");
        fs::create_dir_all(&one).unwrap();
        fs::create_dir_all(sources.join(all)).unwrap();
        assert!(directory(packages.path()).is_err());
        fs::write(one.join(".config"), "").unwrap();
        assert_eq!(directory(packages.path()).unwrap(), one);
        let check = |makefile: &str, expect: Option<&str>| {
            fs::write(one.join("Makefile"), makefile).unwrap();
            assert_eq!(source(&one).ok(), expect.map(|name| sources.join(name)), "{makefile}");
        };
        check(&format!("include /usr/src/{all}/Makefile\n"), Some(all));
        check(&moved(&format!("KBUILD_OUTPUT=/usr/src/one\ninclude /usr/src/{all}/Makefile\n")), Some(all));
        let text = fs::read_to_string(one.join("Makefile")).unwrap();
        assert!(text.contains("\nKBUILD_OUTPUT=$(sources)/one\n") && !text.contains("/usr/src"), "{text}");
        check("include /usr/src/../Makefile\n", None);
        check("all:\n", None);
    }
}
