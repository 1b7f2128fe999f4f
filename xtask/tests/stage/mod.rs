//! A lab as tests of whole runs start it: scenarios, results and a cache of their own.

use lab::{
    cache::Cache,
    report::{Results, ScenarioResult},
};
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::Mutex,
};
use tempfile::TempDir;

/// Real runs take the machine's CPUs; one at a time keeps their deadlines honest.
pub(crate) static ONE_RUN: Mutex<()> = Mutex::new(());

/// Boots a machine and does next to nothing.
pub(crate) const TRIVIAL: &str = "summary: a machine boots\nsteps: [read: trace_clock]\n";

/// Is done with before a machine would be started.
pub(crate) const UNSUPPORTED: &str =
    "summary: of a kernel to come\nrequires: { kernel: \">=99\" }\nsteps: [read: trace_clock]\n";

pub(crate) fn xtask() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn scratch() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A directory of scenarios.
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

/// A lab that runs `scenarios`. What it learns of their times stays beside its results.
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

pub(crate) fn check(command: &mut Command, code: i32, expect: &[&str]) -> Output {
    let output = command.output().unwrap();
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

/// The results in a run's directory, if there are any yet.
pub(crate) fn stored(run: &Path) -> Option<Results> {
    let json = fs::read(run.join("results.json")).ok()?;
    Some(serde_json::from_slice(&json).expect("half a results.json was there to be read"))
}

pub(crate) fn labels(results: &[ScenarioResult]) -> Vec<String> {
    results.iter().map(ScenarioResult::label).collect()
}

/// A cache in `directory` that has all of the real one, with `own` as copies to be damaged, or as
/// nothing at all where `empty`.
pub(crate) fn cache(directory: &Path, own: &[&str], empty: bool) -> PathBuf {
    let real = Cache::open().unwrap();
    let cache = directory.join("cache");
    fs::create_dir_all(&cache).unwrap();
    for entry in fs::read_dir(real.root()).unwrap().flatten() {
        let name = entry.file_name();
        if !own.iter().any(|own| name == *own) {
            symlink(entry.path(), cache.join(name)).unwrap();
        } else if !empty {
            // With its times: an entry that was touched is taken for damaged.
            let copied = Command::new("cp").arg("-a").arg(entry.path()).arg(&cache).status();
            assert!(copied.unwrap().success());
        }
    }
    cache
}
