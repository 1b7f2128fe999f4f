//! Tests of conditions: their parts, and rejected ones.

use crate::scenario::{Condition, FromText};

#[test]
fn conditions_come_apart_at_the_outermost_and() {
    let check = |text, expect: &[&str]| {
        let condition = Condition::from_text(text).unwrap();
        let parts: Vec<_> = condition.parts().iter().map(|part| part.text.as_str()).collect();
        assert_eq!(parts, expect, "{text}");
    };
    check("ret == 8", &["ret == 8"]);
    check("ret == 8 && pid > 0 && (a == 1 && b == 2)", &["ret == 8", "pid > 0", "(a == 1 && b == 2)"]);
    check("a == 1 && b == 2 || c == 3", &["a == 1 && b == 2 || c == 3"]);
    check("a == 1 && (b == 2 || c == 3)", &["a == 1", "(b == 2 || c == 3)"]);
    check("a == 1 ? b == 2 && c == 3 : d", &["a == 1 ? b == 2 && c == 3 : d"]);
    check(r#"comm == "a && b" && x == 1"#, &[r#"comm == "a && b""#, "x == 1"]);
}

#[test]
fn the_names_a_condition_looks_at_are_known() {
    let check = |text, fields: &[&str], bound: &[&str]| {
        let condition = Condition::from_text(text).unwrap();
        assert_eq!(condition.fields().collect::<Vec<_>>(), fields, "{text}");
        assert_eq!(condition.bound().collect::<Vec<_>>(), bound, "{text}");
    };
    check("ret == 8", &["ret"], &[]);
    check("fd == $fd && comm == '$x'", &["fd", "comm"], &["fd"]);
    check("sym(ip).startsWith(\"vfs_\")", &["ip"], &[]);
    check("[1, 2].exists(x, x == value)", &["value"], &[]);
    check("file in ['/a', '/b']", &["file"], &[]);
    check("sym(function) == 'function' && const > 1", &["function", "const"], &[]);
    check("functions + a_for == $for", &["a_for", "functions"], &["for"]);
}

#[test]
fn long_chains_are_parsed_and_dropped() {
    for chain in
        ["1+".repeat(499), "!".repeat(998), "a||".repeat(332), "a.b.".repeat(240), "a[0].".repeat(190)]
    {
        // CEL may reject it, but the stack must not overflow.
        let _ = Condition::from_text(&format!("{chain}a"));
    }
}

#[test]
fn what_is_no_condition_is_refused() {
    let check = |text: &str, expect: &str| {
        let error = Condition::from_text(text).unwrap_err();
        assert!(error.contains(expect), "{text}: {error}");
    };
    check("ret = 8", "expected `==` to compare");
    check("", "bad condition");
    check("ret ==", "bad condition `ret ==`");
    check("symb(ip) == 'x'", "unknown function `symb` in a condition, expected one such as `sym`");
    check(&"(".repeat(900), "nested too deeply");
    check(&format!("{}1{}", "(".repeat(400), ")".repeat(400)), "nested too deeply");
    check(&format!("{}1", "1?1:".repeat(200)), "nested too deeply");
    check(&"1+".repeat(600), "condition of 1200 bytes");
    check("[1].all(a, [1].all(b, [1].all(c, true)))", "nested comprehensions");
    check("{1: 2} == {}", "a map in a condition");
}
