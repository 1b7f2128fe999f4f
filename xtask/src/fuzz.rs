//! `cargo xtask fuzz`: runs each fuzz target for a while, with the installed compiler.
//!
//! One program has all targets. The crates of this workspace are compiled for it by `lab/fuzz/rustc`, with
//! coverage counters; dependencies are those of every other build. There is no sanitizer, which would need a
//! nightly compiler: Rust's own checks find what one would find here, and the allocator finds excessive use
//! of memory.

use crate::{Usage, exit, matrix::github_outputs, root, setup::Setup};
use anyhow::{Result, bail};
use clap::Args;
use fs_err as fs;
use lab::host::prerequisites::Need;
use serde_json::json;
use std::{
    env,
    path::Path,
    sync::{Mutex, PoisonError},
    thread,
};
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
const TARGETS: [(&str, &[&str]); 13] = [
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
    ("histories", &["lab/fuzz/seeds/histories", "lab/fuzz/found/histories"]),
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
        build()?;
        let failed = self.on_all_cpus()?;
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

    /// Runs the targets, one per CPU at a time. Returns those that failed.
    fn on_all_cpus(&self) -> Result<Vec<&'static str>> {
        let wanted = Mutex::new(TARGETS.into_iter().filter(|(name, _)| self.wants(name)));
        let next = || wanted.lock().unwrap_or_else(PoisonError::into_inner).next();
        let work = || {
            let mut failed = Vec::new();
            while let Some((name, seeds)) = next() {
                if !fuzz(name, seeds, self.seconds)? {
                    failed.push(name);
                }
            }
            Ok(failed)
        };
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let ends = thread::scope(|scope| {
            let workers: Vec<_> = (0..cpus).map(|_| scope.spawn(work)).collect();
            let ends = workers.into_iter().map(|worker| match worker.join() {
                Ok(end) => end,
                Err(_) => bail!("a worker panicked"),
            });
            ends.collect::<Result<Vec<_>>>()
        })?;
        Ok(ends.concat())
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

/// Builds the fuzzer. Without incremental compilation, which would optimize less.
fn build() -> Result<()> {
    let shell = Shell::new()?;
    shell.change_dir(root());
    cmd!(shell, "cargo build --locked --package xtask --package fuzz --bin fuzz")
        .env("RUSTC_WORKSPACE_WRAPPER", root().join("lab/fuzz/rustc"))
        .env("CARGO_INCREMENTAL", "0")
        .run()?;
    Ok(())
}

/// Runs one target and returns whether no input failed.
fn fuzz(name: &str, seeds: &[&str], seconds: u32) -> Result<bool> {
    // It has a working directory, so no two threads can share one.
    let shell = Shell::new()?;
    shell.change_dir(root());
    let work = root().join("target/fuzz").join(name);
    let (corpus, artifacts) = (work.join("corpus"), work.join("artifacts"));
    for directory in [&corpus, &artifacts] {
        fs::create_dir_all(directory)?;
    }
    let seeds: Vec<_> = seeds.iter().map(Path::new).filter(|seeds| root().join(seeds).is_dir()).collect();
    let Some(first) = seeds.first() else { bail!("`{name}` has no seed inputs") };
    let program = root().join("target/debug/fuzz");
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
    let run = cmd!(shell, "{program} {limits...} {corpus} {seeds...}").env("FUZZ_TARGET", name);
    let output = run.env("TMPDIR", scratch.path()).quiet().ignore_status().output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let stat =
        |name: &str| said.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("?").trim().to_owned();
    println!(
        "fuzzed {name}: {} inputs run, {} kept, peak memory {} MB",
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

    #[test]
    fn each_target_is_listed_and_has_seeds() {
        let program = fs::read_to_string(root().join("lab/fuzz/src/bodies/mod.rs")).unwrap();
        let table = program.split_once("TARGETS: ").unwrap().1.split_once("];\n").unwrap().0;
        let names = table.lines().filter_map(|line| line.split('"').nth(1));
        assert_eq!(names.collect::<Vec<_>>(), TARGETS.map(|(name, _)| name));
        for (name, seeds) in TARGETS {
            assert!(root().join(seeds[0]).is_dir(), "{name}");
        }
    }
}
