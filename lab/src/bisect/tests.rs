//! Bisections of rows, with scripted verdicts.

use super::*;
use crate::cache::Cache;
use odds::{Confidence, Rate};
use std::{cell::RefCell, collections::BTreeSet, rc::Rc};

const SURE: Criteria =
    Criteria { confidence: Confidence::NINETY_NINE, assumed: None, runs_max: 100, any_failure: false };

fn row(count: usize, breaks: bool) -> CandidateRange {
    let candidates = (0..count).map(|number| Candidate::Named(number.to_string())).collect();
    CandidateRange { candidates, breaks }
}

fn bad(failed: u32, runs: u32) -> Verdict {
    let failure = Failure { fingerprint: "f".into(), reason: "failed: count is 5".into() };
    Verdict::Bad { failed, runs, failures: BTreeSet::from([failure]) }
}

fn good() -> Verdict {
    Verdict::Good { passes: 3, wrong: 0.0089 }
}

fn skipped() -> Verdict {
    Verdict::Skipped { reason: "build failed".into() }
}

/// A bisection's result and messages. Each letter is a candidate: good, bad, skipped, or `!` for an error.
struct Ran {
    result: Result<Conclusion>,
    tried: Vec<String>,
    told: String,
}

fn ran(cache: &Cache, letters: &str, breaks: bool) -> Ran {
    let tried = Rc::new(RefCell::new(Vec::new()));
    let told = Rc::new(RefCell::new(String::new()));
    let (trying, telling) = (Rc::clone(&tried), Rc::clone(&told));
    let mut bisection = Bisection {
        sureness: SURE,
        log: Log::open(cache, &[], false).unwrap(),
        try_one: Box::new(move |one, known| {
            trying.borrow_mut().push(one.label().to_owned());
            match letters.as_bytes()[one.label().parse::<usize>().unwrap()] {
                b'g' => Ok(good()),
                b's' => Ok(skipped()),
                b'b' if known.is_none() => Ok(bad(4, 4)),
                b'b' => Ok(bad(1, 1)),
                _ => anyhow::bail!("cut off"),
            }
        }),
        tell: Box::new(move |line| *telling.borrow_mut() += &(line + "\n")),
        judged: Vec::new(),
    };
    let result = bisection.over_row(&row(letters.len(), breaks));
    drop(bisection);
    Ran { result, tried: tried.take(), told: told.take() }
}

fn fresh() -> (tempfile::TempDir, Cache) {
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::at(directory.path()).unwrap();
    (directory, cache)
}

#[test]
fn the_first_bad_one_is_named_with_its_odds() {
    let ran = ran(&fresh().1, "ggggbbbb", true);
    let conclusion = ran.result.unwrap().to_string();
    assert_eq!(
        conclusion,
        "first bad: 4\nlast good: 3\n4 of 4 runs fail; the probability that this is wrong is at most 1.8 %"
    );
    assert_eq!(ran.tried, ["7", "0", "3", "5", "4"]);
    assert!(ran.told.contains("testing 3 (7 left, about 3 to test)"), "{}", ran.told);
    assert!(ran.told.contains("4 of 4 runs fail; a good verdict takes 3 passes in a row"), "{}", ran.told);
}

#[test]
fn what_was_mended_is_found_as_well() {
    let conclusion = ran(&fresh().1, "bbbgg", false).result.unwrap().to_string();
    assert!(conclusion.starts_with("first good: 3\nlast bad: 2\n"), "{conclusion}");
}

#[test]
fn skipped_ones_may_hide_it() {
    let conclusion = ran(&fresh().1, "ggssbb", true).result.unwrap();
    assert!(!conclusion.is_exact());
    let text = conclusion.to_string();
    assert!(text.starts_with("first bad: one of these 3:\n  2\n  3\n  4\nlast good: 1\n"), "{text}");
    assert!(text.contains("skipped: 2: build failed"), "{text}");
}

#[test]
fn an_end_that_is_not_what_it_is_said_to_be_is_named() {
    let check = |letters, expect: &str| {
        let error = ran(&fresh().1, letters, true).result.unwrap_err();
        assert!(error.is::<BisectError>() && error.to_string().contains(expect), "{error:#}");
    };
    check("ggg", "`2` is not bad: it passed 3 times");
    check("bbb", "`0` is not good: it also fails: failed: count is 5");
    check("ggs", "cannot test `2`, the bad end: build failed");
    check("sgb", "cannot test `0`, the good end");
}

#[test]
fn an_end_that_was_refused_is_tried_again() {
    let (_directory, cache) = fresh();
    assert!(ran(&cache, "sgb", true).result.is_err());
    let again = ran(&cache, "ggb", true);
    assert_eq!(again.tried, ["2", "0", "1"]);
    assert!(again.result.is_ok());
}

#[test]
fn one_that_was_cut_off_goes_on_where_it_stopped() {
    let (_directory, cache) = fresh();
    let first = ran(&cache, "gggg!bbb", true);
    assert_eq!(first.result.unwrap_err().to_string(), "cut off");
    assert_eq!(first.tried, ["7", "0", "3", "5", "4"]);
    let second = ran(&cache, "ggggbbbb", true);
    assert_eq!(second.tried, ["4"]);
    assert!(second.told.contains("3 (7 left, about 3 to test): good"), "{}", second.told);
    let conclusion = second.result.unwrap();
    assert_eq!(conclusion.first, [Candidate::Named("4".into())]);
    assert!(matches!(conclusion.rate, Rate::Measured { failed: 4, runs: 4 }));
}

#[test]
fn a_kernel_that_cannot_be_built_is_skipped_and_a_full_disk_is_not_its_fault() {
    let verdict =
        does_not_build(anyhow::anyhow!("cannot build the kernel `6.12`: x\n  a.c:1: error: y\nz\nw"));
    let expect = "build failed: cannot build the kernel `6.12`: x; a.c:1: error: y; z";
    assert_eq!(verdict.unwrap(), Verdict::Skipped { reason: expect.into() });
    let full = anyhow::Error::from(std::io::Error::from(std::io::ErrorKind::StorageFull));
    assert!(does_not_build(full.context("cannot build the kernel `6.12`")).is_err());
}
