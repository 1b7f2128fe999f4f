//! Machines restored ahead of their turns: the results are the same as without, and no machine
//! outlives the run.

use crate::{
    patience::wait_for,
    stage::{TRIVIAL, UNSUPPORTED, check, labels, run, said, scenarios, scratch, signal, stored, whole_host},
};
use lab::results::{Run, Status};
use rustix::process::Signal;
use std::{
    fs,
    path::{Path, PathBuf},
    thread,
};

/// A scenario that boots its own machine.
const BOOTS: &str = "summary: a machine boots for this\nboot: fresh\nsteps: [read: trace_clock]\n";

const FAILS: &str = "summary: x\nsteps: [{ read: trace_clock, text: { contains: [sundial] } }]\n";

/// Returns how many of `machines` one job restores ahead: all except the first.
fn expected(machines: usize) -> usize {
    machines - 1
}

/// Returns the directories in `run` and up to `depth` levels below those, relative to `run`.
fn directories(run: &Path, depth: usize) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(run).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            let below = if depth > 0 { directories(&entry.path(), depth - 1) } else { Vec::new() };
            found.extend(below.into_iter().map(|below| format!("{name}/{below}")));
            found.push(name);
        }
    }
    found.sort();
    found
}

/// Returns the names of processes started by a lab with its cache in `directory`, found by their environment.
fn survivors(directory: &Path) -> Vec<String> {
    let needle = format!("FTRACE_LAB_CACHE={}", directory.join("cache").display());
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let of_lab = |process: &PathBuf| {
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == needle.as_bytes())
    };
    processes
        .filter(of_lab)
        .map(|process| fs::read_to_string(process.join("comm")).unwrap_or_default())
        .collect()
}

fn latest(results: &Path) -> Run {
    stored(&results.join("latest")).unwrap().run
}

#[test]
fn every_machine_but_the_first_is_restored_ahead_and_has_its_files_in_its_own_place() {
    let _host = whole_host();
    let directory = scratch();
    let results = directory.path().join("results");
    let all = [("a", TRIVIAL), ("b", BOOTS), ("c", TRIVIAL), ("d", UNSUPPORTED)];
    let all = scenarios(directory.path(), all);
    let expect = ["9 passed", "3 unsupported"];
    check(run(&results, &all).args(["--jobs", "1", "--repeat", "3"]), 0, &expect);
    assert_eq!(latest(&results).restored_ahead, expected(6));
    let found = stored(&results.join("latest")).unwrap();
    assert_eq!(labels(&found.scenarios).len(), 12);
    let passed = || found.scenarios.iter().filter(|result| result.status == Status::Passed);
    for result in passed() {
        let place = results.join("latest").join(&result.directory);
        for file in ["qemu.log", "console.txt", "trace.dat", "kernel.log"] {
            assert!(place.join(file).is_file(), "no `{file}` for {}", result.label());
        }
        // The lab marks each step there, so this is the console of the machine that ran.
        let console = fs::read_to_string(place.join("console.txt")).unwrap();
        assert!(console.contains("step 1"), "{}: {console}", result.label());
    }
    let mut expect: Vec<_> = passed().map(|result| result.directory.clone()).collect();
    expect.push("6.12".to_owned());
    expect.sort();
    assert_eq!(directories(&results.join("latest"), 1), expect);
    assert_eq!(survivors(directory.path()), [""; 0]);
}

#[test]
fn none_is_restored_ahead_where_there_are_more_jobs_than_cpus() {
    let _host = whole_host();
    let directory = scratch();
    let results = directory.path().join("results");
    let one = scenarios(directory.path(), [("a", TRIVIAL)]);
    let more = (thread::available_parallelism().map_or(1, usize::from) + 1).to_string();
    check(run(&results, &one).args(["--jobs", &more, "--repeat", "5"]), 0, &["5 passed"]);
    assert_eq!(latest(&results).restored_ahead, 0);
}

#[test]
fn a_machine_that_no_turn_takes_any_more_is_gone_with_the_run() {
    let _host = whole_host();
    let directory = scratch();
    let results = directory.path().join("results");
    let failing = scenarios(directory.path(), [("a", FAILS), ("b", TRIVIAL)]);
    check(run(&results, &failing).args(["--jobs", "1", "--fail-fast"]), 1, &["1 failed"]);
    assert!(!stored(&results.join("latest")).unwrap().run.complete);
    assert_eq!(directories(&results.join("latest"), 1), ["6.12", "6.12/a"]);
    assert_eq!(survivors(directory.path()), [""; 0]);
}

/// Starts an endless run with one job, and sends it a signal once a machine waits for its turn.
fn signalled(directory: &Path, by: Signal) -> PathBuf {
    let results = directory.join("results");
    let one = scenarios(directory, [("a", TRIVIAL)]);
    let lab = run(&results, &one).args(["--jobs", "1", "--repeat", "1000000"]).spawn().unwrap();
    let run = wait_for("run", || {
        let mut runs = fs::read_dir(&results).ok()?.flatten().map(|entry| entry.path());
        runs.find(|run| run.is_dir() && stored(run).is_some_and(|found| found.scenarios.len() >= 2))
    });
    let waits = || directories(&run, 0).iter().any(|name| name.starts_with(".partial-")).then_some(());
    if expected(2) > 0 {
        wait_for("machine ahead", waits);
    }
    // The search does find them while they run.
    assert!(survivors(directory).iter().any(|name| name.starts_with("qemu-system")));
    signal(&lab, by);
    let output = lab.wait_with_output().unwrap();
    assert!(!output.status.success(), "{}", said(&output));
    run
}

#[test]
fn an_interrupted_run_leaves_no_machine_and_no_directory_of_one() {
    let _host = whole_host();
    let directory = scratch();
    let run = signalled(directory.path(), Signal::INT);
    assert_eq!(survivors(directory.path()), [""; 0]);
    assert_eq!(directories(&run, 0), ["6.12"]);
    assert!(directories(&run, 1).iter().all(|name| !name.contains(".partial-")));
}

#[test]
fn a_run_killed_hard_leaves_no_machine_and_the_next_one_clears_its_directory_away() {
    let _host = whole_host();
    let directory = scratch();
    let killed = signalled(directory.path(), Signal::KILL);
    // The kernel kills them asynchronously.
    wait_for("end of machines", || survivors(directory.path()).is_empty().then_some(()));
    let results = directory.path().join("results");
    check(run(&results, &directory.path().join("scenarios")).args(["--jobs", "1"]), 0, &["1 passed"]);
    assert_eq!(directories(&killed, 0), ["6.12"]);
}
