//! Compares the decoder with `trace-cmd report`: count, order, time and every field of every event.
//!
//! Each file under `tests/fixtures/trace` is a test, and so is each `trace.dat` below the directory
//! in `FTRACE_LAB_TRACES`, such as `results/latest`. Without trace-cmd the tests are ignored, with that
//! reason in their names. A failure names the first difference.

mod compare;

use compare::compare;
use libtest_mimic::{Arguments, Failed, Trial};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let reports = Command::new("trace-cmd").arg("--version").output().is_ok();
    let mut files = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/trace"), &mut files);
    let fixtures = files.len();
    assert!(fixtures > 0, "no traces to compare");
    if let Some(directory) = env::var_os("FTRACE_LAB_TRACES") {
        collect(Path::new(&directory), &mut files);
    }
    let trials = files
        .into_iter()
        .enumerate()
        .map(|(number, file)| {
            let suffix = if reports { "" } else { " (unsupported: trace-cmd is not installed)" };
            let name = format!("{}{suffix}", file.display());
            let test = move || match compare(&file) {
                // A scenario may record nothing; a fixture is there for its events.
                Ok(0) if number < fixtures => Err(Failed::from("the trace has no events")),
                Ok(_) => Ok(()),
                Err(error) => Err(Failed::from(format!("{error:#}"))),
            };
            Trial::test(name, test).with_ignored_flag(!reports)
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Collects every `.dat` below `directory`.
fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "dat") {
            files.push(path);
        }
    }
}
