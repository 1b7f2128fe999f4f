//! Tests of what a deny list silences, and when it is wrong.

use super::*;
use crate::history::{judge, questions::tests::history};

fn entry(more: &str) -> String {
    format!("- scenario: s\n  owner: a@b\n  reason: r\n  expires: 2026-02-01\n{more}")
}

#[test]
fn what_is_listed_fails_no_night() {
    let check = |letters: &str, list: &str, fails: bool, known: usize, stale: &str| {
        let lives = history(&".".repeat(letters.len()), &[("s", letters), ("t", &".".repeat(letters.len()))]);
        let judged = judge(&lives, letters.len() as u32 - 1, &DenyList::parse(list).unwrap()).unwrap();
        let causes: Vec<_> = judged.stale.iter().map(|stale| stale.cause.as_str()).collect();
        assert_eq!((judged.fails, judged.known.len()), (fails, known), "{letters} {list}: {causes:?}");
        assert!(causes.join("").contains(stale) && causes.is_empty() == stale.is_empty(), "{causes:?}");
    };
    check("...F", "[]", true, 0, "");
    check("...F", &entry(""), false, 1, "");
    check("..FF", &entry("  kernel: '6.12'\n"), false, 1, "");
    check("...F", &entry("  kernel: '6.1'\n"), true, 0, "it is not in the history");
    check("...F", &entry("  fingerprint: failed-f\n"), false, 1, "");
    check("...G", &entry("  fingerprint: failed-f\n"), true, 0, "");
    check("....", &entry(""), true, 0, "it passes: remove the entry");
    check("..x.", &entry("  flaky: true\n"), false, 0, "");
    check("...x", &entry("  flaky: true\n"), false, 1, "");
    let long = format!("xxxx{}", ".".repeat(12));
    check(&long, &entry("  flaky: true\n"), true, 0, "it passed in 12 nights in a row");
    // The last of 33 nights is 2026-02-02.
    let long = format!("{}F", "F".repeat(32));
    check(&long, &entry(""), true, 1, "expired on 2026-02-01");
    check(&long[1..], &entry(""), false, 1, "");
}

#[test]
fn an_entry_is_complete() {
    let check = |list: &str, expect: &str| {
        let error = DenyList::parse(list).unwrap_err();
        assert!(error.contains(expect), "{error}");
    };
    check("- scenario: s\n  owner: a\n  reason: r\n", "missing field `expires`");
    check(&entry("  until: 3\n"), "unknown field `until`");
    check(&entry("").replace("reason: r", "reason: ' '"), "the entry of `s` has an empty `reason`");
    check(&entry("").replace("2026-02-01", "soon"), "expires on `soon`, expected a day like 2026-03-31");
}
