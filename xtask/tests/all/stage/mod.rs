//! Support for tests of whole runs: private scenarios, results and caches.

use lab::{
    cache::Cache,
    progress::Progress,
    results::{Results, ScenarioResult},
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    os::unix::{fs::symlink, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{LockResult, RwLock, RwLockReadGuard, RwLockWriteGuard},
};
use tempfile::TempDir;

/// Held by each test that runs machines.
static HOST: RwLock<()> = RwLock::new(());

/// For a test that runs as well beside another. Most have one machine at a time, which leaves a CPU idle.
pub(crate) fn share_host() -> LockResult<RwLockReadGuard<'static, ()>> {
    HOST.read()
}

/// For a test that another might disturb, such as one that counts what is done with an idle CPU.
pub(crate) fn whole_host() -> LockResult<RwLockWriteGuard<'static, ()>> {
    HOST.write()
}

/// A scenario that does almost nothing on its machine.
pub(crate) const TRIVIAL: &str = "summary: a machine boots\nsteps: [read: trace_clock]\n";

/// A scenario whose verdict needs no machine.
pub(crate) const UNSUPPORTED: &str =
    "summary: for a future kernel\nrequires: { kernel: \">=99\" }\nsteps: [read: trace_clock]\n";

pub(crate) fn xtask() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Returns the checkout.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

pub(crate) fn scratch() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Creates a directory of scenarios.
pub(crate) fn scenarios<N: AsRef<str>>(
    directory: &Path,
    scenarios: impl IntoIterator<Item = (N, &'static str)>,
) -> PathBuf {
    let path = directory.join("scenarios");
    fs::create_dir_all(&path).unwrap();
    for (name, yaml) in scenarios {
        fs::write(path.join(format!("{}.yaml", name.as_ref())), yaml).unwrap();
    }
    path
}

/// Returns a command that runs `scenarios`. The times it measures stay in a cache next to its results.
pub(crate) fn run(results: &Path, scenarios: &Path) -> Command {
    let mut command = xtask();
    command.args(["lab", "run", "--results"]).arg(results).arg(scenarios);
    if let (true, Some(directory)) = (results.ends_with("results"), results.parent()) {
        let own = directory.join("cache");
        let own = if own.exists() { own } else { cache(directory, &["times.json"], true) };
        command.env("FTRACE_LAB_CACHE", own);
    }
    command
}

/// What a run prints of rare faults that are not the lab's: a guest that hung while it booted, under older QEMUs
/// (docs/failures.md), and an oops of 6.12 where perf swaps the contexts of a process and its child, which
/// bugs/perf-uprobe-inherit makes it do.
const RARE: [&str; 2] = ["the agent did not answer within 60 s of boot", "perf_ctx_sched_task_cb+"];

/// Runs a command, once more if it met a rare fault, and compares its exit code and output.
pub(crate) fn check(command: &mut Command, code: i32, expect: &[&str]) -> Output {
    let mut output = command.output().unwrap();
    if RARE.iter().any(|fault| said(&output).contains(fault)) {
        println!("run again: {}", said(&output));
        output = command.output().unwrap();
    }
    let said = said(&output);
    for part in expect {
        assert!(said.contains(part), "`{part}` is not in:\n{said}");
    }
    assert_eq!(output.status.code(), Some(code), "{said}");
    output
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Returns the directory of the latest run in `results`, if there is one.
pub(crate) fn run_directory(results: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(results).ok()?.flatten().map(|entry| entry.path());
    entries.filter(|path| path.is_dir() && !path.is_symlink()).max()
}

pub(crate) fn signal(lab: &Child, signal: Signal) {
    kill_process(Pid::from_child(lab), signal).unwrap();
}

pub(crate) fn kill_hard(lab: &mut Child) {
    lab.kill().unwrap();
    assert_eq!(lab.wait().unwrap().signal(), Some(9), "it ended before it was killed");
}

/// Returns the results in a run's directory, if there are any yet.
pub(crate) fn stored(run: &Path) -> Option<Results> {
    let json = fs::read(run.join("results.json")).ok()?;
    Some(serde_json::from_slice(&json).expect("results.json is incomplete"))
}

pub(crate) fn labels(results: &[ScenarioResult]) -> Vec<String> {
    results.iter().map(ScenarioResult::label).collect()
}

/// Creates a cache in `directory` that links to the entries of the real one, except for `own`: these
/// are copies that a test may damage, or missing if `empty`.
pub(crate) fn cache(directory: &Path, own: &[&str], empty: bool) -> PathBuf {
    let real = Cache::open(&Progress::silent()).unwrap();
    let cache = directory.join("cache");
    fs::create_dir_all(&cache).unwrap();
    for entry in fs::read_dir(real.root()).unwrap().flatten() {
        let name = entry.file_name();
        if !own.iter().any(|own| name == *own) {
            symlink(entry.path(), cache.join(name)).unwrap();
        } else if !empty {
            // Preserves timestamps: an entry that was touched counts as damaged.
            let copied = Command::new("cp").arg("-a").arg(entry.path()).arg(&cache).status();
            assert!(copied.unwrap().success());
        }
    }
    cache
}
