//! `cargo xtask fuzz`: runs each fuzz target for a while, with the installed compiler.
//!
//! The targets in `lab/fuzz` are laid out for cargo-fuzz, which needs a nightly compiler for its
//! sanitizer. Coverage alone does not: the flags below are those that cargo-fuzz passes with
//! `--sanitizer none`, and all of them are stable. Rust's own checks find what a sanitizer would
//! find here, and the targets' allocator finds excessive use of memory.

use crate::{Usage, exit, matrix::github_outputs, root, setup::Setup};
use anyhow::{Context, Result, bail};
use clap::Args;
use fs_err as fs;
use lab::host::prerequisites::Need;
use serde_json::json;
use std::{env, path::Path};
use xshell::{Shell, cmd};

/// Fuzz the parsers of untrusted input: guest data, and files from elsewhere
#[derive(Args)]
#[command(after_help = "Example:\n  cargo xtask fuzz --seconds 600 pages")]
pub(crate) struct Fuzz {
    /// The targets to run [default: all]
    targets: Vec<String>,
    /// Seconds to run each target for
    #[arg(long, value_name = "N", default_value_t = 15)]
    seconds: u32,
    /// Run nothing; print the targets as JSON for `fromJSON`, and write `targets` to $GITHUB_OUTPUT
    #[arg(long)]
    pub(crate) list: bool,
    #[command(flatten)]
    setup: Setup,
}

/// The targets, each with directories of seed inputs below the repository.
const TARGETS: [(&str, &[&str]); 12] = [
    ("pages", &["lab/fuzz/seeds/pages", "lab/fuzz/found/pages"]),
    ("layouts", &["lab/fuzz/seeds/layouts", "lab/fuzz/found/layouts"]),
    ("formats", &["lab/fuzz/seeds/formats", "lab/fuzz/found/formats"]),
    ("trace_dat", &["lab/tests/fixtures/trace", "lab/fuzz/found/trace_dat"]),
    ("frames", &["lab/fuzz/seeds/frames", "lab/fuzz/found/frames"]),
    ("scenarios", &["scenarios", "lab/fuzz/found/scenarios"]),
    ("results", &["lab/fuzz/seeds/results", "lab/fuzz/found/results"]),
    ("recordings", &["lab/fuzz/seeds/recordings", "lab/fuzz/found/recordings"]),
    ("logs", &["lab/tests/fixtures/splats", "lab/tests/fixtures/selftests", "lab/fuzz/found/logs"]),
    ("vmcore", &["lab/fuzz/seeds/vmcore", "lab/fuzz/found/vmcore"]),
    ("kernels", &["kernels", "lab/fuzz/found/kernels"]),
    ("reproducers", &["lab/fuzz/seeds/reproducers", "lab/fuzz/found/reproducers"]),
];

/// The flags by which cargo-fuzz enables LLVM's coverage counters.
const FLAGS: [&str; 9] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
    "-Ccodegen-units=1",
    "--cfg",
    "fuzzing",
];

/// The largest input, in bytes.
const INPUT_MAX: u32 = 128 << 10;

/// An input that takes this long is a hang.
const HANG_SECONDS: u32 = 10;

impl Fuzz {
    pub(crate) fn run(self) -> Result<u8> {
        if let Some(unknown) =
            self.targets.iter().find(|name| !TARGETS.iter().any(|(known, _)| known == name))
        {
            let known = TARGETS.map(|(name, _)| name).join(", ");
            return Err(Usage(format!("no fuzz target is `{unknown}`; there are {known}")).into());
        }
        if self.list {
            return list(TARGETS.map(|(name, _)| name).into_iter().filter(|name| self.wants(name)));
        }
        self.setup.ensure(Need::Test)?;
        let shell = Shell::new()?;
        shell.change_dir(root());
        let host = host(&shell)?;
        build(&shell, &host)?;
        let mut failed = Vec::new();
        for (name, seeds) in TARGETS {
            if self.wants(name) && !fuzz(&shell, &host, name, seeds, self.seconds)? {
                failed.push(name);
            }
        }
        if failed.is_empty() {
            return Ok(exit::SUCCESS);
        }
        eprintln!(
            "error: {} failed; the file of the input is named above. Copy it to lab/fuzz/found/TARGET/, so \
             that the tests of `lab` also run it",
            failed.join(", ")
        );
        Ok(exit::FAILED)
    }

    fn wants(&self, name: &str) -> bool {
        self.targets.is_empty() || self.targets.iter().any(|target| target == name)
    }
}

/// Prints targets as the matrix of a workflow.
fn list(targets: impl Iterator<Item = &'static str>) -> Result<u8> {
    let matrix = json!({ "include": targets.map(|name| json!({ "target": name })).collect::<Vec<_>>() });
    println!("{matrix}");
    github_outputs(&format!("targets={matrix}\n"))?;
    Ok(exit::SUCCESS)
}

/// Returns the host triple of the compiler. With a `--target`, even this one, cargo builds build scripts
/// and procedural macros without the flags; with them, they would not link.
fn host(shell: &Shell) -> Result<String> {
    let version = cmd!(shell, "rustc -vV").quiet().read()?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("`rustc -vV` prints no host")?.to_owned())
}

fn build(shell: &Shell, host: &str) -> Result<()> {
    // This variable takes precedence over RUSTFLAGS, which may be set in the environment.
    let flags = FLAGS.join("\x1f");
    cmd!(
        shell,
        "cargo build --release --locked --manifest-path lab/fuzz/Cargo.toml --target {host} --target-dir target/fuzz"
    )
    .env("CARGO_ENCODED_RUSTFLAGS", flags)
    .run()?;
    Ok(())
}

/// Runs one target and returns whether no input failed.
fn fuzz(shell: &Shell, host: &str, name: &str, seeds: &[&str], seconds: u32) -> Result<bool> {
    let work = root().join("target/fuzz").join(name);
    let (corpus, artifacts) = (work.join("corpus"), work.join("artifacts"));
    for directory in [&corpus, &artifacts] {
        fs::create_dir_all(directory)?;
    }
    let seeds: Vec<_> = seeds.iter().map(Path::new).filter(|seeds| root().join(seeds).is_dir()).collect();
    let Some(first) = seeds.first() else { bail!("`{name}` has no seed inputs") };
    let program = root().join(format!("target/fuzz/{host}/release/{name}"));
    let artifacts = format!("{}/", artifacts.display());
    println!("fuzzing {name} for {seconds} s, from {}", first.display());
    let limits = [
        format!("-max_total_time={seconds}"),
        format!("-timeout={HANG_SECONDS}"),
        format!("-max_len={INPUT_MAX}"),
        "-rss_limit_mb=2048".to_owned(),
        "-print_final_stats=1".to_owned(),
        "-verbosity=0".to_owned(),
        format!("-artifact_prefix={artifacts}"),
    ];
    // Some targets write files, which is 15 times as fast in memory. An input that fails leaves its files.
    let memory = Path::new("/dev/shm");
    let scratch = tempfile::tempdir_in(if memory.is_dir() { memory.to_owned() } else { env::temp_dir() })?;
    let run = cmd!(shell, "{program} {limits...} {corpus} {seeds...}").env("TMPDIR", scratch.path());
    let output = run.quiet().ignore_status().output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let stat =
        |name: &str| said.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("?").trim().to_owned();
    println!(
        "  {} inputs run, {} kept, peak memory {} MB",
        stat("stat::number_of_executed_units:"),
        stat("stat::new_units_added:"),
        stat("stat::peak_rss_mb:")
    );
    if !output.status.success() {
        eprint!("{said}");
    }
    Ok(output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_target_is_listed_and_has_seeds() {
        let files = fs::read_dir(root().join("lab/fuzz/targets")).unwrap();
        let files = files.map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned());
        let listed = TARGETS.map(|(name, _)| name.to_owned());
        assert_eq!(files.collect::<BTreeSet<_>>(), BTreeSet::from(listed));
        for (name, seeds) in TARGETS {
            assert!(root().join(seeds[0]).is_dir(), "{name}");
        }
    }
}
