//! `cargo xtask fuzz`: every fuzz target for a while, with the compiler that is there.
//!
//! The targets in `lab/fuzz` are laid out for cargo-fuzz, which wants a nightly compiler for its
//! sanitizer. Coverage alone needs none: the flags below are those that cargo-fuzz passes with
//! `--sanitizer none`, and all of them are stable. Rust's own checks find what a sanitizer would
//! look for here, and the targets' allocator finds what takes too much memory.

use crate::{Usage, exit, root, setup::Setup};
use anyhow::{Context, Result, bail};
use clap::Args;
use lab::{host::prerequisites::Need, progress::Progress};
use std::{fs, path::Path};
use xshell::{Shell, cmd};

/// Feed everything that reads a guest's bytes, and scenarios, with bytes that nobody meant
#[derive(Args)]
#[command(after_help = "Example:\n  cargo xtask fuzz --seconds 600 pages")]
pub(crate) struct Fuzz {
    /// Only these targets [default: all]
    targets: Vec<String>,
    /// How long each target runs
    #[arg(long, value_name = "N", default_value_t = 15)]
    seconds: u32,
    #[command(flatten)]
    setup: Setup,
}

/// Each target, and directories below the repository with inputs to begin with.
const TARGETS: [(&str, &[&str]); 6] = [
    ("pages", &["lab/fuzz/seeds/pages", "lab/fuzz/found/pages"]),
    ("layouts", &["lab/fuzz/seeds/layouts", "lab/fuzz/found/layouts"]),
    ("formats", &["lab/fuzz/seeds/formats", "lab/fuzz/found/formats"]),
    ("trace_dat", &["lab/tests/fixtures/trace", "lab/fuzz/found/trace_dat"]),
    ("frames", &["lab/fuzz/seeds/frames", "lab/fuzz/found/frames"]),
    ("scenarios", &["scenarios", "lab/fuzz/found/scenarios"]),
];

/// LLVM's coverage counters, as cargo-fuzz asks for them.
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

/// An input that takes so many seconds hangs.
const HANG_SECONDS: u32 = 10;

impl Fuzz {
    pub(crate) fn run(self) -> Result<u8> {
        if let Some(unknown) =
            self.targets.iter().find(|name| !TARGETS.iter().any(|(known, _)| known == name))
        {
            let known = TARGETS.map(|(name, _)| name).join(", ");
            return Err(Usage(format!("no fuzz target is called `{unknown}`; there are {known}")).into());
        }
        self.setup.ensure(Need::Test, &Progress::new())?;
        let shell = Shell::new()?;
        shell.change_dir(root());
        let host = host(&shell)?;
        build(&shell, &host)?;
        let mut failed = Vec::new();
        for (name, seeds) in TARGETS {
            let wanted = self.targets.is_empty() || self.targets.iter().any(|target| target == name);
            if wanted && !fuzz(&shell, &host, name, seeds, self.seconds)? {
                failed.push(name);
            }
        }
        if failed.is_empty() {
            return Ok(exit::SUCCESS);
        }
        eprintln!(
            "error: {} failed; the input's file is named above. Put it into lab/fuzz/found/TARGET/, where \
             the tests of `lab` read it, too",
            failed.join(", ")
        );
        Ok(exit::FAILED)
    }
}

/// The triple of the compiler's own machine. With a `--target`, even this one, build scripts and
/// procedural macros are built without the flags, with which they would not link.
fn host(shell: &Shell) -> Result<String> {
    let version = cmd!(shell, "rustc -vV").quiet().read()?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("`rustc -vV` does not name its host")?.to_owned())
}

fn build(shell: &Shell, host: &str) -> Result<()> {
    // Flags of the environment would take the place of these.
    let flags = FLAGS.join("\x1f");
    cmd!(
        shell,
        "cargo build --release --locked --manifest-path lab/fuzz/Cargo.toml --target {host} --target-dir target/fuzz"
    )
    .env("CARGO_ENCODED_RUSTFLAGS", flags)
    .run()?;
    Ok(())
}

/// Runs one target; whether it found nothing.
fn fuzz(shell: &Shell, host: &str, name: &str, seeds: &[&str], seconds: u32) -> Result<bool> {
    let work = root().join("target/fuzz").join(name);
    let (corpus, artifacts) = (work.join("corpus"), work.join("artifacts"));
    for directory in [&corpus, &artifacts] {
        fs::create_dir_all(directory).with_context(|| format!("cannot make `{}`", directory.display()))?;
    }
    let seeds: Vec<_> = seeds.iter().map(Path::new).filter(|seeds| root().join(seeds).is_dir()).collect();
    let Some(first) = seeds.first() else { bail!("`{name}` has no inputs to begin with") };
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
    let output = cmd!(shell, "{program} {limits...} {corpus} {seeds...}").quiet().ignore_status().output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let stat =
        |name: &str| said.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("?").trim().to_owned();
    println!(
        "  {} inputs run, {} kept, at most {} MB of memory",
        stat("stat::number_of_executed_units:"),
        stat("stat::new_units_added:"),
        stat("stat::peak_rss_mb:")
    );
    if !output.status.success() {
        eprint!("{said}");
    }
    Ok(output.status.success())
}
