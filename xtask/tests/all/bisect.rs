//! `lab bisect` from start to end as a user runs it: it boots kernels and searches a git repository.

use crate::{
    kernel_commits::{Repository, SCENARIO},
    stage::{cache, check, said, scratch, share_host, signal, stored, xtask},
    watched::Mark,
};
use rustix::process::Signal;
use std::{fs, path::Path, thread, time::Duration};

/// Entries of the cache that the test must not share with other labs.
const OWN: [&str; 4] = ["bisect", "builds", "snapshots", "times.json"];

#[test]
fn commits_are_bisected_on_booted_kernels_and_one_that_was_killed_goes_on() {
    let _host = share_host();
    let directory = scratch();
    let repository = Repository::new(directory.path());
    let own = cache(directory.path(), &OWN, true);
    let (file, results) = (directory.path().join("howto.yaml"), directory.path().join("results"));
    fs::write(&file, SCENARIO).unwrap();
    let bisect = |good: &str, bad: &str| {
        let mut lab = repository.bisect(&file, [good, bad], &results);
        lab.env("FTRACE_LAB_CACHE", &own);
        lab
    };
    let before = repository.state();
    let [first, last] = [&*repository.commits[0], "main"];

    fs::write(&repository.slow, "").unwrap();
    let mut lab = bisect(first, last);
    let mark = Mark::on(&mut lab);
    let mut lab = lab.spawn().unwrap();
    while !repository.building.exists() {
        assert!(lab.try_wait().unwrap().is_none(), "it ended before it reached the fourth commit");
        thread::sleep(Duration::from_millis(5));
    }
    signal(&lab, Signal::INT);
    assert_eq!(lab.wait().unwrap().code(), Some(3));
    mark.is_over();
    assert_eq!(repository.state(), before);
    fs::remove_file(&repository.slow).unwrap();

    let fifth = format!("first bad: {} tracing: change number 5", repository.commits[4]);
    let output = check(
        &mut bisect(first, last),
        0,
        &[
            &fifth,
            "resuming with",
            "from an earlier bisection",
            "skipped: ",
            "kernel/trace/trace.c:1:1: error: no such thing",
            "4 of 4 runs fail; the probability that this is wrong is at most",
        ],
    );
    assert_eq!(repository.state(), before);
    let output = said(&output);
    let kept = output.lines().find_map(|line| line.strip_prefix("results: ")).unwrap();
    let kept = Path::new(kept);
    assert!(kept.join("bisect.json").is_file());
    let replay = fs::read_to_string(kept.join("git-bisect.log")).unwrap();
    assert!(replay.contains("# first bad commit: ["), "{replay}");
    let of_fourth = kept.join(&repository.commits[3][..12]).join("latest");
    assert_eq!(stored(&of_fourth).unwrap().scenarios.len(), 3, "three passes make a kernel good");

    // Good and bad swapped, an end that is not good, and an unknown commit.
    check(&mut bisect(last, first), 2, &["is not bad: it passed"]);
    check(&mut bisect(&repository.commits[4], last), 2, &["is not good: it also fails"]);
    check(&mut bisect("no-such", last), 2, &["`no-such` is not a commit"]);
    assert_eq!(repository.state(), before);
}

#[test]
fn what_cannot_be_bisected_is_said_before_anything_is_built() {
    let directory = scratch();
    let file = directory.path().join("howto.yaml");
    fs::write(&file, SCENARIO).unwrap();
    let bisect = |arguments: &[&str]| {
        let mut lab = xtask();
        lab.args(["lab", "bisect"]).arg(&file).args(arguments);
        lab
    };
    check(&mut bisect(&["--good", "6.12", "--bad", "6.12"]), 2, &["the same kernel"]);
    check(&mut bisect(&["--good", "6.12"]), 2, &["--bad"]);
    check(&mut bisect(&["--good", "6.1", "--bad", "7.2", "--confidence", "1"]), 2, &["below 1"]);
    check(&mut bisect(&["--good", "a", "--bad", "b", "--kernel-tree", "/"]), 2, &["not in a git repository"]);
    let mut many = xtask();
    many.args(["lab", "bisect", "ipmodify/conflicts", "--good", "6.1", "--bad", "7.2"]);
    check(&mut many, 2, &["select one with --filter"]);
}
