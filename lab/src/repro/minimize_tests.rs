//! Minimization of scenarios that fail according to a predicate.

use super::*;
use crate::reproducer::Item;
use std::cell::RefCell;

const SCENARIO: &str = "# why it is as it is
summary: s
trace:
  events:
    - { kprobe: f, name: one }
    - { kprobe: g, name: two }
    - { kprobe: h, name: three }
steps:
  - read: a
  - read: b
  - read: c
  - read: d
  - read: e
expect:
  - count: { event: one, is: 1 }
  - count: { event: two, is: 1 }
  - count: { event: three, is: 1 }
";

fn broken(number: usize) -> Broken {
    Broken::Expectation(Item { number, text: String::new() })
}

/// Minimizes a scenario that fails if it has all of `needed`; returns the rest and the number of tries.
fn check(broken: &Broken, needed: &[&str], expect: &[&str]) -> usize {
    let tried = RefCell::new(Vec::new());
    let mut same = |text: &str| {
        tried.borrow_mut().push(text.to_owned());
        Ok(needed.iter().all(|part| text.contains(part)))
    };
    let mut told = Vec::new();
    let (text, dropped) =
        shrink(SCENARIO, broken, &mut same, &mut |line| told.push(line.to_owned())).unwrap();
    assert_eq!(told, dropped);
    for part in ["read: a", "read: b", "read: c", "read: d", "read: e", "f", "g", "h"] {
        let key = if part.len() == 1 { format!("kprobe: {part}\n") } else { part.to_owned() };
        assert_eq!(text.contains(&key), expect.contains(&part), "{part}: {text}");
    }
    Scenario::parse(Path::new("s.yaml"), &text).unwrap();
    tried.into_inner().len()
}

#[test]
fn what_the_failure_does_not_need_is_dropped() {
    check(&broken(2), &["read: b", "read: d"], &["read: b", "read: d", "g"]);
    check(&broken(1), &["read: e"], &["read: e", "f"]);
    check(&broken(3), &[], &["h"]);
    check(&Broken::Run, &["read: a", "name: three"], &["read: a", "h"]);
}

#[test]
fn halves_go_first() {
    assert!(check(&broken(3), &[], &["h"]) < 10);
}

#[test]
fn what_cannot_be_smaller_stays_as_it_was_written() {
    let mut same = |_: &str| Ok(false);
    let (text, dropped) = shrink(SCENARIO, &broken(1), &mut same, &mut |_| {}).unwrap();
    assert_eq!((text.as_str(), dropped.len()), (SCENARIO, 0));
}

#[test]
fn an_error_ends_the_search() {
    let mut same = |_: &str| bail!("no disk");
    let error = shrink(SCENARIO, &broken(1), &mut same, &mut |_| {}).unwrap_err();
    assert_eq!(error.to_string(), "no disk");
}

#[test]
fn the_failing_step_is_never_tried() {
    let mut same = |text: &str| {
        assert!(text.contains("read: c"), "{text}");
        Ok(true)
    };
    let step = Broken::Step(Item { number: 3, text: String::new() });
    let (text, dropped) = shrink(SCENARIO, &step, &mut same, &mut |_| {}).unwrap();
    assert_eq!(dropped.len(), 3 + 4 + 3, "{text}");
}
