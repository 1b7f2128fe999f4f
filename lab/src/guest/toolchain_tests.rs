//! The choice of a toolchain and the arguments of cargo, tested with scripts in place of rustc and cargo.

use super::*;
use std::fs;

/// A toolchain directory with a rustc that reports it, and a cargo that prints its arguments and
/// environment.
struct Stage {
    directory: tempfile::TempDir,
}

impl Stage {
    fn new() -> Stage {
        let stage = Stage { directory: tempfile::tempdir().unwrap() };
        let rustc = format!(
            "case \"$1\" in --print) echo '{}' ;; *) echo rustc 1.95.0; echo host: some-host ;; esac",
            stage.sysroot().display()
        );
        stage.program("rustc", &rustc);
        stage.program("cargo", "echo \"$@\"; pwd; env");
        stage
    }

    fn sysroot(&self) -> PathBuf {
        self.directory.path().join("sysroot")
    }

    /// Writes a script through a child process: if this process had it open for writing, a child that
    /// another test forks at that moment would keep it busy (ETXTBSY).
    fn program(&self, name: &str, script: &str) {
        let path = self.directory.path().join(name);
        let write = "printf '#!/bin/sh\\n%s\\n' \"$1\" >\"$2\" && chmod +x \"$2\"";
        Tool::new("sh").args(["-c", write, "sh", script]).arg(&path).run().unwrap();
    }

    fn with(self, file: &str) -> Stage {
        let path = self.sysroot().join("lib/rustlib").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
        self
    }

    fn choose(&self, debian: impl FnOnce() -> Result<DebianRust>) -> Result<Toolchain> {
        let active = Active::ask(self.directory.path().join("rustc").as_os_str())?;
        Toolchain::choose(self.directory.path().join("cargo").into(), &active, debian)
    }

    /// Returns how cargo was called: a line of arguments, its directory, its environment.
    fn call(&self, toolchain: &Toolchain) -> Vec<String> {
        let tool = toolchain.cargo_build(self.directory.path(), "agent", Path::new("/target"));
        tool.run().unwrap().lines().map(str::to_owned).collect()
    }
}

fn debian() -> Result<DebianRust> {
    Ok(DebianRust { directory: "/cache".into(), identity: "rustc-web 1.96".into() })
}

fn check(stage: &Stage, toolchain: &Toolchain, target: &str, expect: &[&str]) {
    let call = stage.call(toolchain);
    let line =
        format!("build --locked --package agent --target-dir /target --profile agent --target {target}");
    assert_eq!(call[0], line);
    assert_eq!(Path::new(&call[1]), stage.directory.path().canonicalize().unwrap());
    let mut settings: Vec<&str> = call[2..].iter().map(String::as_str).collect();
    settings.retain(|line| is_of_another_build(OsStr::new(line.split('=').next().unwrap())));
    settings.sort_unstable();
    assert_eq!(settings, expect);
    let built = format!("/target/{target}/agent/agent");
    assert_eq!(toolchain.built(Path::new("/target"), "agent"), Path::new(&built));
}

const FLAGS: &str = "-C target-feature=+crt-static";

#[test]
fn the_musl_target_of_the_active_toolchain_is_taken_with_its_own_linker() {
    let stage =
        Stage::new().with("aarch64-unknown-linux-musl/lib/libstd.rlib").with("some-host/bin/rust-lld");
    let toolchain = stage.choose(|| panic!("Debian's is not needed")).unwrap();
    check(
        &stage,
        &toolchain,
        "aarch64-unknown-linux-musl",
        &[
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld",
            &format!("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUSTFLAGS={FLAGS}"),
        ],
    );
    assert!(toolchain.identity().contains("rustc 1.95.0"), "{}", toolchain.identity());
}

#[test]
fn without_a_linker_of_its_own_the_cross_compiler_links() {
    let stage = Stage::new().with("aarch64-unknown-linux-musl/lib/libstd.rlib");
    let toolchain = stage.choose(|| panic!("Debian's is not needed")).unwrap();
    assert_eq!(toolchain.linker, "aarch64-linux-gnu-gcc");
}

#[test]
fn without_the_musl_target_debians_compiler_is_taken() {
    let stage = Stage::new().with("some-host/bin/rust-lld").with("some-host/lib/libstd.rlib");
    let toolchain = stage.choose(debian).unwrap();
    check(
        &stage,
        &toolchain,
        "aarch64-unknown-linux-gnu",
        &[
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc",
            &format!("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS={FLAGS}"),
            "RUSTC=/cache/rustc",
        ],
    );
    assert!(toolchain.identity().contains("rustc-web 1.96"), "{}", toolchain.identity());
}

#[test]
fn with_neither_the_error_says_what_to_do() {
    let error = Stage::new().choose(|| Err(anyhow::anyhow!("no network"))).unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("rustup target add") && text.contains("no network"), "{text}");
}

#[test]
fn a_compiler_that_names_no_host_is_refused() {
    let stage = Stage::new();
    stage.program("rustc", "echo cc 1.0");
    let error = format!("{:#}", stage.choose(debian).unwrap_err());
    assert!(error.contains("prints no `host:` line"), "{error}");
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
