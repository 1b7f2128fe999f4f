//! Tests of expectations on texts of the recording.

use crate::{
    recording::LOG_LIMIT,
    results::OutcomeStatus::{self, Failed, Inconclusive, Passed},
    splat::STEP_MARK,
    verdict::fixture::judge_all,
};

const HIST: &str = "\
# event histogram
#
# trigger info: hist:keys=common_pid.execname,value:vals=hitcount,count:sort=hitcount:size=2048 [active]
#

{ common_pid: eventfd         [        90], value:          1 } hitcount:          1  count:          8
{ common_pid: eventfd         [        90], value:          2 } hitcount:          3  count:         24
{ call_site: [ffff800080258798] vfs_write+0x10/0x1a0          } hitcount:          2

Totals:
    Hits: 6
    Entries: 3
    Dropped: 0
";

const PROFILE: &str = "  efd_write                                                 5               0
  efd_ret                                                   3               2
";

const CPU0: &str = "entries: 1\noverrun: 2\ncommit overrun: 0\nbytes: 40\noldest event ts:     1.0\nnow ts:  2.0\ndropped events: 0\nread events: 7\n";
const CPU1: &str = "entries: 0\noverrun: 1\ncommit overrun: 1\nbytes: 0\ndropped events: 4\nread events: 2\n";

#[track_caller]
fn check(expectation: &str, status: OutcomeStatus, details: &[&str]) {
    let source = format!(
        "summary: test\ntrace:\n  events:\n    - {{ kprobe: x, name: efd_write }}\n    - {{ kretprobe: x, name: efd_ret }}\n\
         \x20   - {{ event: 'a:b', instance: i }}\n    - {{ event: 'a:b', instance: j }}\nexpect:\n  - {expectation}\n"
    );
    let files = [
        ("events/kprobes/efd_write/hist", HIST),
        ("kprobe_profile", PROFILE),
        ("per_cpu/cpu0/stats", CPU0),
        ("per_cpu/cpu1/stats", CPU1),
        ("instances/i/per_cpu/cpu0/stats", CPU1),
        ("instances/i/per_cpu/cpu1/stats", CPU1),
        ("instances/j/per_cpu/cpu0/stats", CPU0),
    ];
    let log = "[    0.0] Booting Linux\n[    1.0] all is well\n";
    let outcomes = judge_all(&source, "", log, &files);
    assert_eq!(outcomes[0].status, status, "{expectation}: {}", outcomes[0].detail);
    for detail in details {
        assert!(outcomes[0].detail.contains(detail), "no `{detail}` in {}", outcomes[0].detail);
    }
}

#[test]
fn hist() {
    let hist = |rest: &str| format!("hist: {{ event: efd_write, {rest} }}");
    check(
        &hist("entries: [{ key: { value: 2 }, hitcount: 3, values: { count: 24 } }]"),
        Passed,
        &["found 3 entries"],
    );
    check(
        &hist("entries: [{ key: { common_pid: eventfd, value: 1 }, hitcount: { at_least: 1 } }]"),
        Passed,
        &[],
    );
    check(&hist("entries: [{ key: { call_site: vfs_write } }]"), Passed, &[]);
    check(&hist("hits: 6, dropped: 0"), Passed, &[]);
    check(&hist("hits: 7"), Failed, &["hits: found 6, expected exactly 7"]);
    check(
        &hist("entries: [{ key: { value: 9 } }]"),
        Failed,
        &["no entry { value: 9 }\n  found 3 entries:\n    { common_pid: eventfd"],
    );
    check(
        &hist("entries: [{ key: { value: 2 }, hitcount: 1 }]"),
        Failed,
        &["entry { value: 2 }: hitcount 3, expected exactly 1"],
    );
    check(&hist("entries: [{ key: { value: 2 }, values: { bytes: 1 } }]"), Failed, &["has no `bytes`"]);
    check(
        &hist("only: true, entries: [{ key: { common_pid: eventfd } }]"),
        Failed,
        &["not expected: { call_site: [ffff"],
    );
    check("hist: { event: efd_ret, hits: 1 }", Failed, &["there is no `events/kprobes/efd_ret/hist`"]);
}

#[test]
fn stats() {
    check("stats: { event: efd_write, hits: 5, missed: 0 }", Passed, &["found hits 5, missed 0"]);
    check("stats: { event: efd_ret, missed: 0 }", Failed, &["found missed 2, expected missed exactly 0"]);
    check(
        "stats: { event: sched:sched_switch, hits: 1 }",
        Failed,
        &["`kprobe_profile` has no event `sched_switch`"],
    );
    check(
        "stats: { entries: 10, overruns: 3, dropped: 5 }",
        Passed,
        &["found entries 10, overruns 3, dropped 5"],
    );
    check("stats: { event: 'a:b@i', entries: 4, overruns: 2 }", Passed, &["found entries 4, overruns 2"]);
    check("stats: { overruns: 0 }", Failed, &["found overruns 3, expected overruns exactly 0"]);
}

#[test]
fn a_cpu_without_counters_leaves_their_sum_unknown() {
    let unknown = &["dropped unknown: cannot read `instances/j/per_cpu/cpu1/stats`"];
    check("stats: { event: 'a:b@j', dropped: 0 }", Inconclusive, unknown);
}

#[test]
fn kernel_log() {
    check("kernel_log: all is well", Passed, &["has 2 lines"]);
    check("kernel_log: { never: [BUG, WARNING] }", Passed, &[]);
    check(
        "kernel_log: { never: Booting }",
        Failed,
        &["kernel log: expected the text never to contain \"Booting\", found in its line 1"],
    );
}

#[test]
fn a_kernel_log_is_shown_from_the_first_step_on() {
    let check = |lines: &[&str], expect: &str| {
        let log: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let outcomes = judge_all("summary: s\nexpect:\n  - kernel_log: hello\n", "", &log, &[]);
        let expect = format!("kernel log: expected the text to contain \"hello\"; {expect}");
        assert_eq!((outcomes[0].status, outcomes[0].detail.as_str()), (Failed, expect.as_str()));
    };
    let mark = format!("[ 1.0] {STEP_MARK}1");
    check(&["[ 0.0] Booting", &mark, "[ 1.1] hallo"], "since the first step it says:\n  [ 1.1] hallo");
    check(&["[ 0.0] Booting", &mark], "it has no line since the first step");
    check(&["[ 0.0] Booting"], "at the end it says:\n  [ 0.0] Booting");
    let many: Vec<String> = (0..22).map(|number| format!("[ 2.0] {number}")).collect();
    let lines: Vec<&str> = [mark.as_str()].into_iter().chain(many.iter().map(String::as_str)).collect();
    let shown: String = many[2..].iter().map(|line| format!("\n  {line}")).collect();
    check(&lines, &format!("since the first step it says:\n  … 2 lines before{shown}"));
}

#[test]
fn a_kernel_log_without_its_beginning_is_not_never_something() {
    let check = |expectation: &str, status: OutcomeStatus| {
        let log = "[    9.0] all is well\n".repeat(LOG_LIMIT / 22 + 1);
        let outcomes = judge_all(&format!("summary: s\nexpect:\n  - {expectation}\n"), "", &log, &[]);
        assert_eq!(outcomes[0].status, status, "{}", outcomes[0].detail);
    };
    check("kernel_log: all is well", Passed);
    check("kernel_log: { never: BUG }", Inconclusive);
    check("kernel_log: { never: well }", Failed);
}
