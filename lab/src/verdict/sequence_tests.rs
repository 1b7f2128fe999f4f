//! Tests of sequences: order, binds, gaps, time and losses.

use crate::{
    results::OutcomeStatus::{Failed, Inconclusive, Passed},
    verdict::fixture::check,
};

/// Two tasks that open, write and close files at the same time.
const TRACE: &str = "
    1000 0 a-1 t:open fd=3
    1100 1 b-2 t:open fd=3
    1200 0 a-1 t:write fd=3 n=5
    1300 1 b-2 t:write fd=4 n=6
    1400 0 a-1 t:close fd=3
    1500 1 b-2 t:close fd=4
";

fn sequence(steps: &[&str]) -> String {
    let steps: String = steps.iter().map(|step| format!("\n  - {{ {step} }}")).collect();
    format!("sequence:{steps}")
}

#[test]
fn order() {
    check(
        &sequence(&["event: t:open", "event: t:write", "event: t:close"]),
        TRACE,
        Passed,
        &["all 3 events in order"],
    );
    check(&sequence(&["event: t:open", "event: t:open"]), TRACE, Passed, &[]);
    check(
        &sequence(&["event: t:close", "event: t:write"]),
        TRACE,
        Failed,
        &[
            "found 1 of 2 events in order\n  1. `t:close` at pid 1 [000] 0.000001\n  2. `t:write` did not follow",
        ],
    );
    check(
        &sequence(&["event: t:open, where: fd == 9", "event: t:close"]),
        TRACE,
        Failed,
        &[
            "found none of 2 events\n  1. `t:open` where `fd == 9` did not follow\n  nearest of 2 others:",
            "rejected by `fd == 9`",
        ],
    );
    // No event counts twice.
    check(&sequence(&["event: t:open", "event: t:open", "event: t:open"]), TRACE, Failed, &["found 2 of 3"]);
}

#[test]
fn binds() {
    // The first open has no such close; only the search through all beginnings finds this.
    let of_b =
        ["event: t:open, bind: pid", "event: t:write, same: pid, where: n == 6", "event: t:close, same: pid"];
    check(&sequence(&of_b), TRACE, Passed, &[]);
    let fd =
        ["event: t:open, bind: { fd: fd, task: pid }", "event: t:close, where: fd == $fd && pid == $task"];
    check(&sequence(&fd), TRACE, Passed, &[]);
    let other =
        ["event: t:open, bind: { fd: fd, task: pid }", "event: t:close, where: fd != $fd && pid == $task"];
    check(&sequence(&other), TRACE, Passed, &[]);
    let none = ["event: t:open, bind: { fd: fd }", "event: t:close, where: fd == $fd + 2"];
    check(&sequence(&none), TRACE, Failed, &["found 1 of 2", "rejected by `fd == $fd + 2`"]);
    let both = ["event: t:open, bind: [pid, fd]", "event: t:write, same: [pid, fd], where: n == 6"];
    check(&sequence(&both), TRACE, Failed, &["rejected by `same: fd`, which was 3"]);
}

#[test]
fn strict_steps_have_nothing_in_between() {
    check(&sequence(&["event: t:open, where: pid == 2", "event: t:write, strict: true"]), TRACE, Passed, &[]);
    check(
        &sequence(&["event: t:open, where: pid == 1", "event: t:write, strict: true"]),
        TRACE,
        Failed,
        &["did not follow: another event came between: b-2 [001] 0.000001: open: fd=3"],
    );
    // With `same`, only events of that task count.
    check(
        &sequence(&["event: t:open, where: pid == 1, bind: pid", "event: t:write, same: pid, strict: true"]),
        TRACE,
        Passed,
        &[],
    );
    check(
        &sequence(&["event: t:open, where: pid == 1, bind: pid", "event: t:close, same: pid, strict: true"]),
        TRACE,
        Failed,
        &["another event came between: a-1 [000] 0.000001: write: fd=3 n=5"],
    );
    let whole =
        "sequence:\n  strict: true\n  steps: [{ event: t:open }, { event: t:open }, { event: t:write }]";
    check(whole, TRACE, Passed, &[]);
    let whole =
        "sequence:\n  strict: true\n  steps: [{ event: t:open }, { event: t:write }, { event: t:close }]";
    check(whole, TRACE, Failed, &["found 2 of 3"]);
    // An event of a kind that no step names also comes between.
    let other = TRACE.replace("1200 0", "1150 0 c-3 x:y z=1\n1200 0");
    check(
        &sequence(&["event: t:open, where: pid == 2", "event: t:write, strict: true"]),
        &other,
        Failed,
        &["came between: c-3"],
    );
}

#[test]
fn the_nearest_miss_has_all_but_what_was_bound() {
    let steps = [
        "event: t:open, where: pid == 1, bind: [pid, fd]",
        "event: t:write, same: pid, where: n == 6 && fd > $fd",
    ];
    check(
        &sequence(&steps),
        TRACE,
        Failed,
        &[
            "nearest of 2 others:\n    b-2 [001] 0.000001: write: fd=4 n=6\n      rejected by `same: pid`, which was 1",
        ],
    );
}

#[test]
fn time_limits() {
    let step = |within: &str| {
        sequence(&["event: t:open, where: pid == 1", &format!("event: t:close, within: {within}")])
    };
    check(&step("400ns"), TRACE, Passed, &[]);
    check(
        &step("399ns"),
        TRACE,
        Failed,
        &["did not follow: it came 400ns after the event before, expected within 399ns"],
    );
    let other = sequence(&["event: t:open, where: pid == 1", "event: t:write, where: n == 6, within: 50ns"]);
    check(&other, TRACE, Failed, &["did not follow: time ran out 50ns after the event before"]);
    let whole = |within: &str| {
        format!(
            "sequence:\n  within: {within}\n  steps: [{{ event: t:open }}, {{ event: t:write }}, {{ event: t:close }}]"
        )
    };
    // From the later open to the first close it is 300 ns.
    check(&whole("300ns"), TRACE, Passed, &[]);
    check(&whole("299ns"), TRACE, Failed, &["found 2 of 3", "after the first event, expected within 299ns"]);
}

#[test]
fn losses() {
    let lossy = format!("{TRACE} LOST 1 4 1110 1190");
    check(&sequence(&["event: t:open", "event: t:close"]), &lossy, Passed, &[]);
    check(
        &sequence(&["event: t:close", "event: t:open"]),
        &lossy,
        Inconclusive,
        &["found 1 of 2 events in order, but 4 events were lost"],
    );
    // A lost event may have come between.
    check(
        &sequence(&["event: t:open, where: pid == 2", "event: t:write, strict: true"]),
        &lossy,
        Inconclusive,
        &[],
    );
    check(
        &sequence(&["event: t:write, where: pid == 1", "event: t:write, strict: true"]),
        &lossy,
        Passed,
        &[],
    );
}

#[test]
fn many_beginnings_take_bounded_memory() {
    let mut trace = String::new();
    for n in 0..5000 {
        trace.push_str(&format!("{n} 0 a-{n} t:open fd={n}\n"));
    }
    let none = ["event: t:open, bind: pid", "event: t:close, same: pid"];
    check(&sequence(&none), &trace, Inconclusive, &["dropped some: more than 2048 were open at a time"]);
    // Without binds there is one partial match, no matter how many events begin it.
    let none = ["event: t:open", "event: t:close"];
    check(&sequence(&none), &trace, Failed, &["found 1 of 2"]);
}
