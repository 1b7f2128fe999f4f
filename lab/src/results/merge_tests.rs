//! Tests of which runs can be merged, which are refused, and what is reported as missing.

use super::*;
use crate::results::{
    PartOptions,
    fixture::{result, results},
    parts::last_tries,
};

/// Returns a part in `directory` that ran `scenarios` on 6.12, all of which passed.
fn part(directory: &str, shard: Option<&str>, scenarios: &[&str]) -> MergeInput {
    let mut results = results(scenarios.iter().map(|name| result(name, Status::Passed)).collect());
    results.run.shard = shard.map(str::to_owned);
    results.run.cases = shard.map(|_| 4);
    let options =
        PartOptions { kernels: vec!["6.12".into()], filter: Some("^a|b$".into()), ..PartOptions::default() };
    results.run.options = shard.map(|_| PartOptions { paths: vec!["--yes".into()], ..options });
    results.kernels = vec![info("6.12", "6.12.107-1")];
    MergeInput { directory: directory.into(), results }
}

fn info(name: &str, version: &str) -> KernelInfo {
    KernelInfo { name: name.into(), source_version: version.into(), config_hash: "h".into() }
}

#[track_caller]
fn gaps(parts: &[MergeInput], expect: &[&str]) {
    let merged = merge(parts, &["6.12".into()]).unwrap();
    let found = merged.gaps.iter().map(|gap| match &gap.again {
        Some(again) => format!("{}: {again}", gap.what),
        None => gap.what.clone(),
    });
    assert_eq!(found.collect::<Vec<_>>(), expect);
    assert_eq!(merged.results.run.complete, expect.is_empty());
}

#[track_caller]
fn refused(parts: &[MergeInput], expect: &str) {
    let error = merge(parts, &[]).unwrap_err().to_string();
    assert!(error.contains(expect), "{error}");
}

#[test]
fn parts_of_a_split_make_the_whole() {
    let parts = [part("x", Some("1/2 of s"), &["a", "b"]), part("y", Some("2/2 of s"), &["c", "d"])];
    gaps(&parts, &[]);
    let merged = merge(&parts, &[]).unwrap();
    let names: Vec<_> = merged.results.scenarios.iter().map(|result| result.name.as_str()).collect();
    assert_eq!((names, merged.origins), (vec!["a", "b", "c", "d"], vec![0, 0, 1, 1]));
    assert_eq!(merged.results.kernels.len(), 1);
    // The second of three parts had no scenarios, as the total number of cases proves.
    gaps(&[part("x", Some("1/3 of s"), &["a", "b"]), part("y", Some("3/3 of s"), &["c", "d"])], &[]);
}

#[test]
fn what_is_missing_is_named() {
    let one = part("x", Some("1/3 of s"), &["a", "b"]);
    let command = |shard: &str| format!("--kernel 6.12 --shard '{shard}' --filter '^a|b$' -- --yes");
    let missing = ["2/3", "3/3"]
        .map(|part| format!("part {part} of s, of 6.12, is missing: {}", command(&format!("{part} of s"))));
    gaps(std::slice::from_ref(&one), &missing.each_ref().map(String::as_str));
    let mut interrupted = part("x", Some("1/1 of s"), &["a"]);
    interrupted.results.run.complete = false;
    let ended = format!("`x` ended after 1 scenarios, without the rest: {}", command("1/1 of s"));
    gaps(&[interrupted], &[&ended]);
    let mut broken = part("y", None, &["a"]);
    broken.results.run.complete = false;
    gaps(&[broken], &["`y` ended after 1 scenarios, without the rest"]);
    let mut other = part("y", Some("2/3 of s"), &["c", "d"]);
    other.results.kernels = vec![info("6.12", "6.12.108-1")];
    gaps(
        &[one, other],
        &[
            "the kernel 6.12 in `y` is 6.12.108-1; its source or configuration differs from 6.12.107-1 in other \
             runs: --kernel 6.12 --shard '2/3 of s' --filter '^a|b$' -- --yes",
        ],
    );
    for (part, again) in [
        (part("x", None, &["a"]), None),
        (part("x", Some("1/1 of s"), &["a"]), Some("--kernel 7.2 --shard 1/1 --filter '^a|b$' -- --yes")),
    ] {
        let gaps = merge(&[part], &["6.12".into(), "7.2".into()]).unwrap().gaps;
        let what = "no results for the kernel 7.2".to_owned();
        assert_eq!(gaps, [Gap { what, again: again.map(str::to_owned) }]);
    }
}

#[test]
fn an_interrupted_part_that_ran_again_counts_once() {
    let run = |directory: &str, complete: bool, scenarios: &[&str]| {
        let mut run = part(directory, Some("1/2 of s"), scenarios);
        run.results.run.complete = complete;
        run
    };
    let other = || part("other", Some("2/2 of s"), &["c", "d"]);
    let check = |runs: Vec<MergeInput>, kept: &[&str], dropped: &[&str]| {
        let (runs, lines) = last_tries(runs);
        let directories: Vec<_> = runs.iter().map(|run| run.directory.to_str().unwrap()).collect();
        assert_eq!(
            (directories, lines.iter().map(String::as_str).collect::<Vec<_>>()),
            (kept.to_vec(), dropped.to_vec())
        );
        runs
    };
    let mut first = run("first", false, &["a"]);
    first.results.scenarios[0].status = Status::Failed;
    let line = "`first` was interrupted after 1 scenarios, 1 of which failed; `again` counts instead";
    let again = run("again", true, &["a", "b"]);
    gaps(&check(vec![first.clone(), again.clone(), other()], &["again", "other"], &[line]), &[]);
    check(vec![again.clone(), other(), first.clone()], &["again", "other"], &[line]);
    // Of those that were all interrupted, the one with the most results counts.
    let more = run("again", false, &["a", "b"]);
    check(vec![first.clone(), more], &["again"], &[line]);
    check(
        vec![first.clone(), run("again", false, &["a"])],
        &["first"],
        &["`again` was interrupted after 1 scenarios, 0 of which failed; `first` counts instead"],
    );
    // Two complete ones are refused.
    let twice = check(vec![again, run("twice", true, &["a", "b"])], &["again", "twice"], &[]);
    refused(&twice, "`a` on 6.12 is in both `again` and `twice`");
    check(vec![part("x", None, &["a"]), first], &["x", "first"], &[]);
}

#[test]
fn what_is_no_whole_is_refused() {
    refused(&[], "no runs given");
    let one = part("x", Some("1/2 of s"), &["a"]);
    refused(
        &[one.clone(), part("y", Some("2/2 of t"), &["b"])],
        "`x` and `y` have parts of different splits of the kernel 6.12",
    );
    refused(&[one.clone(), part("y", None, &["b"])], "different splits");
    refused(&[one.clone(), part("y", Some("1/2 of s"), &["b"])], "both part 1/2 of s");
    refused(&[one.clone(), part("y", Some("2/3 of s"), &["b"])], "one of 3 parts of s, others are of 2");
    refused(&[one.clone(), part("y", Some("2/2 of s"), &["a"])], "`a` on 6.12 is in both `x` and `y`");
    for damaged in ["", "1", "1/2", "3/2 of s", "0/2 of s", "1/2 of ", "1/99999999 of s"] {
        refused(&[part("x", Some(damaged), &["a"])], "expected one like");
    }
}

#[test]
fn the_last_report_tells_what_is_new() {
    let last = results(vec![
        result("fails now", Status::Passed),
        result("gone", Status::Passed),
        result("unsupported now", Status::Passed),
        result("failed then too", Status::Hang),
        result("known bug then", Status::KnownBug),
        result("unsupported then", Status::Unsupported),
        result("mended", Status::Panic),
        result("same", Status::Passed),
    ]);
    let now = results(vec![
        result("failed then too", Status::Failed),
        result("fails now", Status::Passed),
        result("fails now", Status::Splat),
        result("known bug then", Status::Panic),
        result("unsupported then", Status::Failed),
        result("mended", Status::Passed),
        result("new", Status::Failed),
        result("same", Status::Passed),
        result("unsupported now", Status::Unsupported),
    ]);
    let names = |cases: &[(String, String)]| cases.iter().map(|case| case.0.clone()).collect::<Vec<_>>();
    let since = since(&last, &now);
    assert_eq!(names(&since.regressed), ["fails now", "known bug then", "unsupported then"]);
    assert_eq!(names(&since.gone), ["gone", "unsupported now"]);
    assert_eq!(names(&since.fixed), ["mended"]);
}
