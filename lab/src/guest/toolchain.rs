//! The Rust toolchain that builds the agent: the active one if it has the musl target, else
//! Debian's, unpacked in the cache.
//!
//! Both are used with the cargo that runs the lab. That cargo has put settings of its own build
//! into the environment, and the user may have put more there; none of them reach the agent's.

use super::{CROSS_GCC, debian_rust};
use crate::{cache::Cache, host::process::Tool, progress::Progress};
use anyhow::{Context, Result};
use std::{
    env,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

/// The target of rustup's standard library: `rustup target add` brings it.
const MUSL: &str = "aarch64-unknown-linux-musl";

/// The target of Debian's standard library.
const GNU: &str = "aarch64-unknown-linux-gnu";

/// A compiler, and what cargo has to be told to use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Toolchain {
    /// The target triple.
    target: &'static str,
    /// Another compiler than cargo would take.
    rustc: Option<PathBuf>,
    linker: &'static str,
    rustflags: &'static str,
    /// What names this toolchain in keys: another compiler has another identity.
    identity: String,
}

impl Toolchain {
    /// The toolchain to use on this host; fetches Debian's if need be.
    pub(super) fn find(cache: &Cache, progress: &Progress) -> Result<Toolchain> {
        let active = Active::find()?;
        match active.has(MUSL) {
            true => Ok(Toolchain::musl(&active)),
            false => {
                let rust = debian_rust::obtain(cache, progress).with_context(|| {
                    format!(
                        "no Rust toolchain for the guest; with rustup, `rustup target add {MUSL}` makes \
                         the active one serve"
                    )
                })?;
                Ok(Toolchain::debian(rust.rustc, &rust.identity))
            }
        }
    }

    /// The active toolchain. Its own lld links, since the musl target brings all else that is
    /// needed; a toolchain without one has the cross compiler link.
    fn musl(active: &Active) -> Toolchain {
        let linker = if active.has_lld() { "rust-lld" } else { CROSS_GCC };
        Toolchain {
            target: MUSL,
            rustc: None,
            linker,
            rustflags: "-C target-feature=+crt-static",
            identity: format!("{MUSL} {linker} {}", active.version),
        }
    }

    /// Debian's, with the C library of the cross compiler.
    fn debian(rustc: PathBuf, identity: &str) -> Toolchain {
        Toolchain {
            target: GNU,
            rustc: Some(rustc),
            linker: CROSS_GCC,
            rustflags: "-C target-feature=+crt-static",
            identity: format!("{GNU} {CROSS_GCC} {identity}"),
        }
    }

    /// What names this toolchain in keys.
    pub(super) fn identity(&self) -> &str {
        &self.identity
    }

    /// The command that builds `package` of the workspace at `root`, with the profile of the same
    /// name, below `target_directory`.
    pub(super) fn cargo_build(&self, root: &Path, package: &str, target_directory: &Path) -> Tool {
        let mut tool = Tool::new(cargo())
            .args(["build", "--locked", "--package", package, "--profile", package])
            .args(["--target", self.target, "--target-dir"])
            .arg(target_directory)
            .directory(root);
        for (name, _) in env::vars_os().filter(|(name, _)| is_of_another_build(name)) {
            tool = tool.env_remove(name);
        }
        for (name, value) in self.environment() {
            tool = tool.env(name, value);
        }
        tool
    }

    /// Where [`Toolchain::cargo_build`] leaves the program `package`.
    pub(super) fn built(&self, target_directory: &Path, package: &str) -> PathBuf {
        target_directory.join(self.target).join(package).join(package)
    }

    fn environment(&self) -> Vec<(String, OsString)> {
        let target = self.target.to_uppercase().replace('-', "_");
        let mut environment = vec![
            (format!("CARGO_TARGET_{target}_LINKER"), self.linker.into()),
            (format!("CARGO_TARGET_{target}_RUSTFLAGS"), self.rustflags.into()),
        ];
        if let Some(rustc) = &self.rustc {
            environment.push(("RUSTC".into(), rustc.into()));
        }
        environment
    }
}

/// The cargo that runs the lab, else the one on `PATH`.
fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Whether a variable is about some other build: cargo's words to what it runs, and settings that
/// would change what is built. The network's, the registries' and rustup's choice of a toolchain
/// stay.
fn is_of_another_build(name: &OsStr) -> bool {
    const KEPT: [&str; 5] =
        ["CARGO_HOME", "CARGO_NET_", "CARGO_HTTP_", "CARGO_REGISTRIES_", "CARGO_REGISTRY_"];
    let name = name.to_string_lossy();
    let cargos = name.starts_with("CARGO_") && !KEPT.iter().any(|kept| name.starts_with(kept));
    cargos || ["RUSTC", "RUSTFLAGS", "RUSTDOC"].iter().any(|prefix| name.starts_with(prefix))
}

/// The toolchain that builds the lab itself.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Active {
    sysroot: PathBuf,
    /// The host triple.
    host: String,
    /// What `rustc -vV` says.
    version: String,
}

impl Active {
    fn find() -> Result<Active> {
        let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let ask = |args: &[&str]| {
            Tool::new(&rustc).args(args).run().context("cannot ask the active Rust compiler about itself")
        };
        Active::parse(&ask(&["--print", "sysroot"])?, &ask(&["-vV"])?)
    }

    fn parse(sysroot: &str, version: &str) -> Result<Active> {
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        let host = host.with_context(|| format!("`rustc -vV` names no host:\n{version}"))?;
        Ok(Active { sysroot: sysroot.trim().into(), host: host.to_owned(), version: version.to_owned() })
    }

    fn has(&self, target: &str) -> bool {
        self.sysroot.join("lib/rustlib").join(target).join("lib").is_dir()
    }

    fn has_lld(&self) -> bool {
        self.sysroot.join("lib/rustlib").join(&self.host).join("bin/rust-lld").is_file()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const VERSION: &str = "rustc 1.95.0 (59807616e 2026-04-14)\nhost: x86_64-unknown-linux-gnu\n";

    fn active(sysroot: &Path) -> Active {
        Active::parse(&format!("{}\n", sysroot.display()), VERSION).unwrap()
    }

    #[test]
    fn the_musl_target_is_there_if_its_library_is() {
        let sysroot = tempfile::tempdir().unwrap();
        let active = active(sysroot.path());
        assert!(!active.has(MUSL));
        fs::create_dir_all(sysroot.path().join("lib/rustlib").join(MUSL).join("lib")).unwrap();
        assert!(active.has(MUSL) && !active.has(GNU));
        assert_eq!(Toolchain::musl(&active).linker, CROSS_GCC);
        let bin = sysroot.path().join("lib/rustlib/x86_64-unknown-linux-gnu/bin");
        fs::create_dir_all(&bin).unwrap();
        fs::write(bin.join("rust-lld"), "").unwrap();
        assert_eq!(Toolchain::musl(&active).linker, "rust-lld");
    }

    #[test]
    fn a_compiler_that_names_no_host_is_refused() {
        let error = Active::parse("/sysroot", "cc 1.0").unwrap_err();
        assert!(format!("{error:#}").contains("names no host"), "{error:#}");
    }

    fn check_environment(toolchain: &Toolchain, expect: &[(&str, &str)]) {
        let found = toolchain.environment();
        let found: Vec<_> =
            found.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn each_way_has_its_linker_and_compiler() {
        let musl = Toolchain::musl(&active(Path::new("/none")));
        check_environment(
            &musl,
            &[
                ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", CROSS_GCC),
                ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUSTFLAGS", "-C target-feature=+crt-static"),
            ],
        );
        assert!(musl.identity().contains("1.95.0 (59807616e"), "{}", musl.identity());
        let debian = Toolchain::debian("/cache/rustc".into(), "1.96.0+dfsg1-1");
        check_environment(
            &debian,
            &[
                ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", CROSS_GCC),
                ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS", "-C target-feature=+crt-static"),
                ("RUSTC", "/cache/rustc"),
            ],
        );
        assert_eq!(
            debian.built(Path::new("/t"), "agent"),
            Path::new("/t/aarch64-unknown-linux-gnu/agent/agent")
        );
    }

    #[test]
    fn settings_of_another_build_are_known() {
        let check = |name: &str, expect| assert_eq!(is_of_another_build(OsStr::new(name)), expect, "{name}");
        for name in [
            "CARGO_TARGET_DIR",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_BUILD_TARGET",
            "CARGO_MANIFEST_DIR",
            "CARGO_PKG_VERSION",
            "CARGO_PROFILE_AGENT_OPT_LEVEL",
            "CARGO_MAKEFLAGS",
            "RUSTC",
            "RUSTC_WRAPPER",
            "RUSTFLAGS",
            "RUSTDOCFLAGS",
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
        ] {
            check(name, true);
        }
        for name in [
            "CARGO",
            "CARGO_HOME",
            "CARGO_NET_OFFLINE",
            "CARGO_HTTP_PROXY",
            "RUSTUP_TOOLCHAIN",
            "RUSTUP_HOME",
            "CARGO_REGISTRIES_MINE_INDEX",
            "RUST_BACKTRACE",
            "PATH",
        ] {
            check(name, false);
        }
    }

    /// Runs the command with a cargo that tells what it was called with.
    #[test]
    fn cargo_is_called_for_the_target_alone() {
        let directory = tempfile::tempdir().unwrap();
        let toolchain = Toolchain::debian("/cache/rustc".into(), "1");
        let tool = toolchain.cargo_build(directory.path(), "agent", Path::new("/t"));
        let line = format!("{tool:?}");
        for word in ["--locked", "--profile", "--target-dir", "aarch64-unknown-linux-gnu", "/cache/rustc"] {
            assert!(line.contains(word), "{line}");
        }
    }
}
