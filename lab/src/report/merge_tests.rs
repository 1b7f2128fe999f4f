//! What makes one report, what is refused, and what is named.

use super::*;
use crate::report::fixture::{result, results};

/// A part in `directory` that ran `scenarios` of 6.12, all passed.
fn part(directory: &str, shard: Option<&str>, scenarios: &[&str]) -> Part {
    let mut results = results(scenarios.iter().map(|name| result(name, Status::Passed)).collect());
    results.run.shard = shard.map(str::to_owned);
    results.run.cases = shard.map(|_| 4);
    results.kernels = vec![info("6.12", "6.12.107-1")];
    Part { directory: directory.into(), results }
}

fn info(name: &str, version: &str) -> KernelInfo {
    KernelInfo { name: name.into(), source_version: version.into(), config_hash: "h".into() }
}

#[track_caller]
fn lacking(parts: &[Part], expect: &[&str]) {
    let merged = merge(parts, &["6.12".into()]).unwrap();
    assert_eq!(merged.lacking, expect);
    assert_eq!(merged.results.run.complete, expect.is_empty());
}

#[track_caller]
fn refused(parts: &[Part], expect: &str) {
    let error = merge(parts, &[]).unwrap_err().to_string();
    assert!(error.contains(expect), "{error}");
}

#[test]
fn parts_of_a_split_make_the_whole() {
    let parts = [part("x", Some("1/2 of s"), &["a", "b"]), part("y", Some("2/2 of s"), &["c", "d"])];
    lacking(&parts, &[]);
    let merged = merge(&parts, &[]).unwrap();
    let names: Vec<_> = merged.results.scenarios.iter().map(|result| result.name.as_str()).collect();
    assert_eq!((names, merged.origins), (vec!["a", "b", "c", "d"], vec![0, 0, 1, 1]));
    assert_eq!(merged.results.kernels.len(), 1);
    // The third had nothing to do, and the count of the whole proves it.
    lacking(&[part("x", Some("1/3 of s"), &["a", "b"]), part("y", Some("3/3 of s"), &["c", "d"])], &[]);
}

#[test]
fn what_is_missing_is_named() {
    let one = part("x", Some("1/3 of s"), &["a", "b"]);
    lacking(std::slice::from_ref(&one), &["of the split s of 6.12 these parts are missing: 2/3, 3/3"]);
    let mut broken = part("y", None, &["a"]);
    broken.results.run.complete = false;
    lacking(&[broken], &["`y` was broken off after 1 scenarios"]);
    let mut other = part("y", Some("2/3 of s"), &["c", "d"]);
    other.results.kernels = vec![info("6.12", "6.12.108-1")];
    lacking(
        &[one, other],
        &[
            "the kernel 6.12 of `y` is 6.12.108-1, with another source or configuration than 6.12.107-1 elsewhere",
        ],
    );
    let merged = merge(&[part("x", None, &["a"])], &["6.12".into(), "7.2".into()]).unwrap();
    assert_eq!(merged.lacking, ["there is nothing from the kernel 7.2"]);
}

#[test]
fn what_is_no_whole_is_refused() {
    refused(&[], "there is no run");
    let one = part("x", Some("1/2 of s"), &["a"]);
    refused(
        &[one.clone(), part("y", Some("2/2 of t"), &["b"])],
        "`x` and `y` have parts of different splits of the kernel 6.12",
    );
    refused(&[one.clone(), part("y", None, &["b"])], "different splits");
    refused(&[one.clone(), part("y", Some("1/2 of s"), &["b"])], "both part 1/2 of s");
    refused(&[one.clone(), part("y", Some("2/3 of s"), &["b"])], "one of 3 parts of s, others of 2");
    refused(&[one.clone(), part("y", Some("2/2 of s"), &["a"])], "`a` on 6.12 is in `x` and in `y`");
    for damaged in ["", "1", "1/2", "3/2 of s", "0/2 of s", "1/2 of ", "1/99999999 of s"] {
        refused(&[part("x", Some(damaged), &["a"])], "expected such as");
    }
}

#[test]
fn the_last_report_tells_what_is_new() {
    let last = results(vec![
        result("fails now", Status::Passed),
        result("gone", Status::Passed),
        result("unsupported now", Status::Passed),
        result("failed then too", Status::Hang),
        result("mended", Status::Panic),
        result("same", Status::Passed),
    ]);
    let now = results(vec![
        result("failed then too", Status::Failed),
        result("fails now", Status::Passed),
        result("fails now", Status::Splat),
        result("mended", Status::Passed),
        result("new", Status::Failed),
        result("same", Status::Passed),
        result("unsupported now", Status::Unsupported),
    ]);
    let names = |cases: &[(String, String)]| cases.iter().map(|case| case.0.clone()).collect::<Vec<_>>();
    let since = since(&last, &now);
    assert_eq!(names(&since.regressed), ["fails now"]);
    assert_eq!(names(&since.gone), ["gone", "unsupported now"]);
    assert_eq!(names(&since.mended), ["mended"]);
}
