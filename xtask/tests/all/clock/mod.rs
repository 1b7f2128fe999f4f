//! A clock that is set back, for the lab and everything that it starts.

use crate::{
    patience::wait_for,
    stage::{
        TRIVIAL, UNSUPPORTED, cache, check, run, run_directory, said, scenarios, scratch, share_host, signal,
        stored,
    },
    tree::{tree, unfinished},
};
use lab::host::process::write_program;
use rustix::process::Signal;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime},
};

/// Returns libfaketime's path, which depends on the architecture.
fn library() -> String {
    let found = Command::new("faketime").args(["now", "sh", "-c", "echo $LD_PRELOAD"]).output();
    let output = found.expect("faketime is not installed");
    let path = said(&output).trim().to_owned();
    assert!(path.contains("libfaketime"), "{path}");
    path
}

/// Lets the command read the time from `file`, whenever it asks. Only the time of day is changed: a clock
/// that is set does not affect the monotonic one, nor the times of files that exist.
fn fake<'a>(command: &'a mut Command, file: &Path) -> &'a mut Command {
    command.env("LD_PRELOAD", library()).env("FAKETIME_TIMESTAMP_FILE", file);
    command
        .envs(["FAKETIME_NO_CACHE", "FAKETIME_DONT_FAKE_MONOTONIC", "NO_FAKE_STAT"].map(|name| (name, "1")))
}

struct Setting {
    directory: tempfile::TempDir,
    results: PathBuf,
    scenarios: PathBuf,
    clock: PathBuf,
}

impl Setting {
    fn new() -> Setting {
        let directory = scratch();
        // A lab that takes an entry for damaged must not remove that of other labs.
        cache(directory.path(), &["initramfs", "snapshots", "times.json", "workloads"], true);
        let (results, clock) = (directory.path().join("results"), directory.path().join("clock"));
        let scenarios = scenarios(directory.path(), [("a", TRIVIAL), ("b", UNSUPPORTED)]);
        // rustc's allocator asks for the time before it can allocate, as libfaketime does: it would hang.
        let rustc = "#!/bin/sh\nunset LD_PRELOAD\nexec rustc \"$@\"\n";
        write_program(&directory.path().join("rustc"), rustc).unwrap();
        check(&mut run(&results, &scenarios), 0, &["1 passed"]);
        Setting { results, scenarios, clock, directory }
    }

    /// Returns a command that runs the scenarios at this time.
    fn at(&self, time: &str) -> Command {
        fs::write(&self.clock, time).unwrap();
        let mut lab = run(&self.results, &self.scenarios);
        fake(lab.args(["--jobs", "1"]), &self.clock);
        lab.env("RUSTC", self.directory.path().join("rustc"));
        lab
    }

    fn runs(&self) -> BTreeSet<PathBuf> {
        let runs = fs::read_dir(&self.results).into_iter().flatten().flatten().map(|entry| entry.path());
        runs.filter(|run| !run.is_symlink()).collect()
    }

    /// Runs the scenarios and checks that older results stay, and that `latest` is the new run, which rebuilt
    /// nothing. Returns its directory.
    fn check(&self, execute: impl FnOnce() -> String) -> PathBuf {
        let (runs, before) = (self.runs(), tree(&self.results));
        let said = execute();
        assert!(said.contains("1 passed") && !said.contains("warning"), "{said}");
        assert!(!said.contains("building") && !said.contains("making"), "{said}");
        let after = tree(&self.results);
        let stays = |path: &Path| path == Path::new("latest") || before.get(path) == after.get(path);
        assert!(before.keys().all(|path| stays(path)), "older results changed");
        let new: Vec<_> = self.runs().difference(&runs).cloned().collect();
        let latest = fs::canonicalize(self.results.join("latest")).unwrap();
        assert_eq!(new, std::slice::from_ref(&latest));
        let found = stored(&latest).unwrap();
        assert!(found.run.complete && found.scenarios.len() == 2);
        let seconds = found.scenarios.iter().map(|result| result.seconds).chain([found.run.seconds]);
        assert!(
            seconds.clone().all(|seconds| (0.0..3600.0).contains(&seconds)),
            "{:?}",
            seconds.collect::<Vec<_>>()
        );
        assert_eq!(unfinished(&self.results), Vec::<PathBuf>::new());
        latest
    }

    fn check_at(&self, time: &str) -> String {
        let latest = self.check(|| said(&check(&mut self.at(time), 0, &[])));
        latest.file_name().unwrap().to_str().unwrap().to_owned()
    }
}

#[test]
fn later_runs_at_earlier_times_are_the_latest_ones() {
    let _host = share_host();
    let setting = Setting::new();
    let now = setting.check_at("+0");
    let yesterday = setting.check_at("-1d");
    assert!(yesterday < now, "{yesterday} {now}: the clock was not set back");
    // The very same second twice.
    assert_eq!(setting.check_at("2020-02-01 00:00:00"), "20200201-000000-6.12");
    assert_eq!(setting.check_at("2020-02-01 00:00:00"), "20200201-000000-6.12.1");
    // A board without a battery.
    setting.check_at("1970-01-02 00:00:00");
    setting.check_at("+0");
}

#[test]
fn a_clock_that_is_set_back_during_a_run_does_not_disturb_it() {
    let _host = share_host();
    let setting = Setting::new();
    setting.check_at("+0");
    setting.check(|| {
        let runs = setting.runs();
        let lab = setting.at("+0").spawn().unwrap();
        wait_for("run", || run_directory(&setting.results).filter(|run| !runs.contains(run)));
        signal(&lab, Signal::STOP);
        let begun = setting.runs().difference(&runs).next().cloned().unwrap();
        assert!(begun.join(".running").exists(), "it was stopped too late");
        fs::write(&setting.clock, "-1d").unwrap();
        signal(&lab, Signal::CONT);
        let output = lab.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        said(&output)
    });
}

#[test]
fn entries_of_the_cache_that_were_used_in_the_future_are_used() {
    let _host = share_host();
    let setting = Setting::new();
    let snapshots = setting.directory.path().join("cache/snapshots");
    let future = SystemTime::now() + Duration::from_secs(86_400);
    for snapshot in fs::read_dir(snapshots).unwrap().flatten() {
        fs::File::open(snapshot.path()).unwrap().set_modified(future).unwrap();
    }
    setting.check_at("+0");
}
