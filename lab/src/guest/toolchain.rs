//! The Rust toolchain that builds the agent: the active one if it has the musl target, else
//! Debian's, unpacked in the cache. The active one also builds the plugin of QEMU.
//!
//! Both are used with the cargo that runs the lab. That cargo, and perhaps the user, put build settings
//! into the environment; they are removed.

use super::CROSS_GCC;
use crate::{
    context::Lab,
    host::{
        confine::PATH,
        debian_rust::{DebianRust, FOR_THE_GUEST, obtain},
        process::Tool,
    },
};
use anyhow::{Context, Result};
use std::{
    env,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

/// The target of rustup's standard library, which `rustup target add` installs.
const MUSL: &str = "aarch64-unknown-linux-musl";

/// The target of Debian's standard library.
const GNU: &str = "aarch64-unknown-linux-gnu";

/// A compiler, and the settings with which cargo uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Toolchain {
    /// The cargo to run.
    cargo: OsString,
    /// The target triple.
    target: &'static str,
    /// The compiler, if not cargo's default.
    rustc: Option<PathBuf>,
    linker: &'static str,
    rustflags: &'static str,
    /// The directories of its programs: those of cargo in `bin`.
    programs: Vec<PathBuf>,
    /// Identifies this toolchain in keys: differs for each compiler.
    identity: String,
}

impl Toolchain {
    /// Returns the toolchain to use on this host; fetches Debian's if necessary.
    pub(super) fn find(lab: &Lab) -> Result<Toolchain> {
        let active = Active::ask(&running("RUSTC", "rustc"))?;
        Toolchain::choose(running("CARGO", "cargo"), &active, || obtain(lab, &FOR_THE_GUEST))
    }

    fn choose(
        cargo: OsString,
        active: &Active,
        debian: impl FnOnce() -> Result<DebianRust>,
    ) -> Result<Toolchain> {
        if active.has(MUSL) {
            return Ok(Toolchain::musl(cargo, active));
        }
        let hint = || {
            format!(
                "no Rust toolchain for the guest; with rustup, run `rustup target add {MUSL}` to \
                 use the active one"
            )
        };
        let rust = debian().with_context(hint)?;
        Ok(Toolchain::debian(cargo, rust, active))
    }

    /// Describes the active toolchain. Its own lld links, since the musl target contains the C library; a
    /// toolchain without lld links with the cross compiler.
    fn musl(cargo: OsString, active: &Active) -> Toolchain {
        let linker = if active.has_lld() { "rust-lld" } else { CROSS_GCC };
        Toolchain {
            cargo,
            target: MUSL,
            rustc: None,
            linker,
            rustflags: "-C target-feature=+crt-static",
            programs: vec![active.sysroot.clone()],
            identity: format!("{MUSL} {linker} {}", active.version),
        }
    }

    /// Describes Debian's toolchain, which uses the C library of the cross compiler.
    fn debian(cargo: OsString, rust: DebianRust, active: &Active) -> Toolchain {
        Toolchain {
            cargo,
            target: GNU,
            identity: format!("{GNU} {CROSS_GCC} {}", rust.identity),
            rustc: Some(rust.program("rustc")),
            programs: vec![active.sysroot.clone(), rust.directory],
            linker: CROSS_GCC,
            rustflags: "-C target-feature=+crt-static",
        }
    }

    /// Returns the string that identifies this toolchain in keys.
    pub(super) fn identity(&self) -> &str {
        &self.identity
    }

    /// Returns the command that builds `package` of the workspace at `root`, with the profile of the
    /// same name, below `target_directory`.
    pub(super) fn cargo_build(&self, root: &Path, package: &str, target_directory: &Path) -> Tool {
        let mut tool = cargo_build(&self.cargo, root, package, target_directory).args([
            "--profile",
            package,
            "--target",
            self.target,
        ]);
        for (name, value) in self.environment() {
            tool = tool.env(name, value);
        }
        tool
    }

    /// Returns the path of the program `package` that [`Toolchain::cargo_build`] builds.
    pub(super) fn built(&self, target_directory: &Path, package: &str) -> PathBuf {
        target_directory.join(self.target).join(package).join(package)
    }

    /// Returns what a confined cargo must be able to read: the compiler, and the packages that the user fetched.
    pub(super) fn readable(&self) -> Vec<PathBuf> {
        let packages = cargo_home().map(|home| home.join("registry"));
        let paths = self.programs.iter().cloned().chain(packages);
        paths.filter(|path| path.is_dir()).collect()
    }

    /// Returns the environment in which any cargo builds for the guest, without network.
    pub(super) fn cargo_environment(&self) -> Vec<(String, OsString)> {
        let mut environment = self.environment();
        environment.push(("CARGO_BUILD_TARGET".into(), self.target.into()));
        environment.push(("CARGO_NET_OFFLINE".into(), "true".into()));
        environment.extend(cargo_home().map(|home| ("CARGO_HOME".into(), home.into())));
        let programs = self.programs.iter().map(|directory| directory.join("bin"));
        let path = env::join_paths(programs.chain(env::split_paths(PATH))).unwrap_or_else(|_| PATH.into());
        environment.push(("PATH".into(), path));
        environment
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

/// Returns the cargo or rustc that runs the lab, by the variable that names it, else that on `PATH`.
fn running(variable: &str, name: &str) -> OsString {
    env::var_os(variable).unwrap_or_else(|| name.into())
}

/// Returns what identifies the toolchain of the host.
pub(crate) fn host_toolchain() -> Result<String> {
    Ok(Active::ask(&running("RUSTC", "rustc"))?.version)
}

/// Returns the directory with the packages that cargo fetched.
fn cargo_home() -> Option<PathBuf> {
    let set = env::var_os("CARGO_HOME").filter(|home| !home.is_empty());
    set.map(PathBuf::from).or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")))
}

/// Returns the command that builds `package` of the workspace at `root` for the host, optimized, below
/// `target_directory`.
pub(crate) fn host_cargo_build(root: &Path, package: &str, target_directory: &Path) -> Tool {
    cargo_build(&running("CARGO", "cargo"), root, package, target_directory).arg("--release")
}

fn cargo_build(cargo: &OsStr, root: &Path, package: &str, target_directory: &Path) -> Tool {
    let tool = Tool::new(cargo)
        .args(["build", "--locked", "--package", package, "--target-dir"])
        .arg(target_directory)
        .directory(root);
    let others = env::vars_os().filter(|(name, _)| is_of_another_build(name));
    others.fold(tool, |tool, (name, _)| tool.env_remove(name))
}

/// Returns whether an environment variable is part of some other build: one that cargo sets for the
/// programs it runs, or a setting that would change what is built. Settings of network and registries and
/// rustup's choice of a toolchain are kept.
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
    /// The output of `rustc -vV`.
    version: String,
}

impl Active {
    fn ask(rustc: &OsStr) -> Result<Active> {
        let ask = |args: &[&str]| {
            Tool::new(rustc).args(args).run().context("cannot query the active Rust compiler")
        };
        Active::parse(&ask(&["--print", "sysroot"])?, &ask(&["-vV"])?)
    }

    fn parse(sysroot: &str, version: &str) -> Result<Active> {
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        let host = host.with_context(|| format!("`rustc -vV` prints no `host:` line:\n{version}"))?;
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
#[path = "toolchain_tests.rs"]
mod tests;
