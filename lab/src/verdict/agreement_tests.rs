//! Tests of `matches_output:` on small traces and outputs.

use crate::{
    recording::StepStdout,
    results::OutcomeStatus::{self, Failed, Inconclusive, Passed},
    verdict::fixture::judge_with,
};
use std::collections::BTreeMap;

/// Two tasks, each with calls and their returns.
const CALLS: &str = "
    1000 0 a-90 t:enter id=64
    1500 0 a-90 t:exit id=64 ret=8
    2000 1 b-91 t:enter id=63
    2100 0 a-90 t:enter id=56 file=\"/etc/motd\"
    2200 0 a-90 t:exit id=56 ret=-2
    2500 1 b-91 t:exit id=63 ret=8
";

/// The output of a tool about them.
const SAID: &str = "strace: attached
90 [64] write = 0x8
90 [56] openat = -1 ENOENT
91 [63] read = 8
+++ exited +++
";

const RETURNS: &str = r"lines: '^(?<pid>\d+) \[(?<id>\d+)\].* = (?:-1 )?(?<ret>\S+)', events: ['t:exit']";

#[track_caller]
fn check(fields: &str, trace: &str, said: Option<&str>, status: OutcomeStatus, details: &[&str]) {
    let said = said.map(|text| (1, StepStdout { text: text.to_owned(), whole: !text.ends_with("cut") }));
    let source = format!(
        "summary: x\nsteps: [ {{ workload: a }} ]\nexpect:\n  - matches_output: {{ step: 1, {fields} }}"
    );
    let outcomes = judge_with(&source, trace, "", &[], &BTreeMap::from_iter(said));
    let shown = format!("{fields}\n→ {:?}: {}", outcomes[0].status, outcomes[0].detail);
    assert_eq!(outcomes[0].status, status, "{shown}");
    details
        .iter()
        .for_each(|detail| assert!(outcomes[0].detail.contains(detail), "no `{detail}` in\n{shown}"));
}

#[test]
fn lines_and_events_of_the_same_values_agree() {
    check(&format!("{RETURNS}, by: pid"), CALLS, Some(SAID), Passed, &["3 lines, 3 events"]);
    // The order of the trace is different.
    check(RETURNS, CALLS, Some(&SAID.replace("90 [56]", "91 [56]")), Failed, &["`pid` is `91`"]);
    let in_order = "90 [64] = 8\n90 [56] = -2\n91 [63] = 8\n";
    check(RETURNS, CALLS, Some(in_order), Passed, &["3 lines"]);
    let other = "91 [63] = 8\n90 [64] = 8\n90 [56] = -2\n";
    check(RETURNS, CALLS, Some(other), Failed, &["`pid` is `91` in the output and 90 in the trace"]);
    check(&format!("{RETURNS}, by: pid"), CALLS, Some(other), Passed, &[]);
}

#[test]
fn whatever_only_one_side_has_is_a_disagreement() {
    let by = format!("{RETURNS}, by: pid");
    let said = SAID.replace("0x8", "0x9");
    check(
        &by,
        CALLS,
        Some(&said),
        Failed,
        &[
            "`ret` is `0x9` in the output and 8",
            "line 2: 90 [64] write = 0x9",
            "a-90 [000] 0.000001: exit: id=64 ret=8",
        ],
    );
    check(&by, CALLS, Some(&SAID.replace("ENOENT", "EPERM")), Failed, &["`ret` is `EPERM`", "and -2"]);
    let said = SAID.replace("91 [63] read = 8\n", "");
    check(&by, CALLS, Some(&said), Failed, &["2 lines, 3 events; only in the trace:", "b-91"]);
    let said = format!("{SAID}92 [1] x = 0\n");
    check(&by, CALLS, Some(&said), Failed, &["4 lines, 3 events; only in the output:", "line 6: 92 [1]"]);
    check(&by, "", Some(SAID), Failed, &["3 lines, 0 events", "no event `t:exit` is in the trace"]);
    check(&format!("{by}, where: ret > 0"), CALLS, Some(SAID), Failed, &["3 lines, 2 events"]);
}

#[test]
fn several_events_are_told_apart_by_what_they_have() {
    let fields = r"lines: '^(?<event>enter|exit) (?<id>\d+)(?: (?<file>/\S+))?(?: ret=(?<ret>\S+))?$', events: ['t:enter', 't:exit'], where: pid == 90";
    let said = "enter 64\nexit 64 ret=8\nenter 56 /etc/motd\nexit 56 ret=0xfffffffffffffffe\n";
    check(fields, CALLS, Some(said), Passed, &["4 lines, 4 events"]);
    let without = said.replace(" /etc/motd", "").replace("exit 56", "exit 56 /etc/motd");
    check(
        fields,
        CALLS,
        Some(&without),
        Failed,
        &["`file` is no such field in the output and \"/etc/motd\""],
    );
    check(
        fields,
        CALLS,
        Some(&said.replace(" ret=8", "")),
        Failed,
        &["`ret` is no such field in the output"],
    );
}

#[test]
fn an_output_that_says_nothing_agrees_with_nothing() {
    check(RETURNS, "", Some("no\n"), Failed, &["no line of the stdout of step 1", "it is \"no\\n\""]);
    check(RETURNS, CALLS, None, Failed, &["step 1 left no stdout"]);
    check(RETURNS, CALLS, Some("90 [64] = 8\n cut"), Failed, &["a part of the stdout of step 1 was dropped"]);
    let fields = r"lines: '^(?<id>\d+)(?<ret>never)?', events: ['t:enter'], where: pid == 91";
    check(fields, CALLS, Some("63\n"), Failed, &["`ret` is in none of the 1 lines"]);
}

#[test]
fn what_was_lost_may_be_what_the_output_has_more() {
    let lossy = format!("{CALLS}LOST 1 1 2500 -");
    let more = format!("{SAID}91 [57] close = 0\n");
    let by = format!("{RETURNS}, by: pid");
    check(&by, &lossy, Some(SAID), Inconclusive, &["3 lines, 3 events, but 1 event was lost"]);
    check(&by, &lossy, Some(&more), Inconclusive, &[]);
    check(&by, &lossy, Some(&SAID.replace("0x8", "9")), Failed, &["`ret` is `9`"]);
}
