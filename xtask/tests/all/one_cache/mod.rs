//! Two labs that make the same entries of one cache.

use crate::{
    patience::{PATIENCE, wait_for},
    stage::{cache, check, kill_hard, said, scratch, signal, stored, whole_host, xtask},
    tree::unfinished,
    watched::Mark,
};
use rustix::process::Signal;
use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc::channel,
    thread,
};

/// A scenario that needs a module, a workload and a snapshot.
const SCENARIO: &str = "ipmodify/redirect-eventfd-write";

/// The kinds of entries that both labs make.
const OWN: [&str; 5] = ["initramfs", "modules", "snapshots", "times.json", "workloads"];

fn lab(cache: &Path, results: &Path) -> Command {
    let mut lab = xtask();
    lab.args(["lab", "run", SCENARIO, "--results"]).arg(results).env("FTRACE_LAB_CACHE", cache);
    lab
}

/// Checks that everything is there once and nothing has to be made again.
fn check_made(cache: &Path, results: &Path) {
    let output = check(&mut lab(cache, results), 0, &["1 passed"]);
    assert!(!said(&output).contains("building") && !said(&output).contains("making"), "{}", said(&output));
    assert_eq!(unfinished(results), Vec::<PathBuf>::new());
    for kind in OWN.map(|kind| cache.join(kind)).iter().filter(|kind| kind.is_dir()) {
        let names = fs::read_dir(kind).unwrap().flatten().map(|entry| entry.file_name());
        let left: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with('.')).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn labs_that_start_together_make_each_entry_once() {
    let _host = whole_host();
    let directory = scratch();
    let own = cache(directory.path(), &OWN, true);
    let results = directory.path().join("results");
    let labs = [(), ()].map(|()| lab(&own, &results).spawn().unwrap());
    let said = labs.map(|lab| {
        let output = lab.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        said(&output)
    });
    for made in ["building the module ftracehook", "building the workload eventfd …", "making a snapshot"] {
        let lines = said.iter().flat_map(|said| said.lines());
        let count = lines.filter(|line| line.starts_with(made)).count();
        assert_eq!(count, 1, "`{made}`: {said:?}");
    }
    let runs = fs::read_dir(&results).unwrap().flatten().map(|entry| entry.path());
    let runs: Vec<_> = runs.filter(|run| !run.is_symlink()).collect();
    assert_eq!(runs.len(), 2, "{runs:?}");
    for run in runs {
        let found = stored(&run).unwrap();
        assert!(found.run.complete && found.scenarios[0].status == lab::results::Status::Passed);
    }
    check_made(&own, &results);
}

#[test]
fn a_lab_goes_on_if_the_one_that_it_waits_for_is_killed() {
    let _host = whole_host();
    let directory = scratch();
    let own = cache(directory.path(), &OWN, true);
    let results = directory.path().join("results");
    let mut command = lab(&own, &results);
    let mark = Mark::on(&mut command);
    let mut first = command.spawn().unwrap();
    let is_making = || {
        let modules = fs::read_dir(own.join("modules")).ok()?.flatten();
        modules.map(|entry| entry.file_name()).find(|name| name.to_string_lossy().starts_with(".making-"))
    };
    wait_for("module that is being made", is_making);
    // It holds its lock until it is killed, however long the other takes to get there.
    signal(&first, Signal::STOP);
    assert!(is_making().is_some(), "it was stopped too late");
    let mut second = lab(&own, &results).stderr(Stdio::piped()).spawn().unwrap();
    let (send, lines) = channel();
    let stderr = BufReader::new(second.stderr.take().unwrap());
    thread::spawn(move || stderr.lines().map_while(Result::ok).all(|line| send.send(line).is_ok()));
    while !lines.recv_timeout(PATIENCE).expect("the second lab does not wait").contains("waiting for another")
    {
    }
    kill_hard(&mut first);
    mark.is_over();
    let output = second.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    check_made(&own, &results);
}
