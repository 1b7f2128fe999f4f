//! Tests of each expectation on small traces.

use super::fixture::check;
use crate::results::OutcomeStatus::{Failed, Inconclusive, Passed};

/// Five writes of one task and their returns, as a kprobe and a kretprobe show them.
const EFD: &str = "
    1000 0 eventfd-90 t:write value=+1 count=+8
    1500 0 eventfd-90 t:ret ret=8
    2000 0 eventfd-90 t:write value=+2 count=+8
    2500 0 eventfd-90 t:ret ret=8
    3000 1 eventfd-90 t:write value=+4 count=+8
    3900 1 eventfd-90 t:ret ret=-11
";

fn with(more: &str) -> String {
    format!("{EFD}{more}")
}

#[test]
fn count() {
    check("count: { event: t:write, is: 3 }", EFD, Passed, &["found 3"]);
    check("count: { event: t:ret, where: ret == 8, is: 2 }", EFD, Passed, &[]);
    check("count: { event: t:ret, where: ret < 0, at_least: 1, at_most: 1 }", EFD, Passed, &[]);
    check(
        "count: { event: t:ret, where: ret == 8, is: 3 }",
        EFD,
        Failed,
        &[
            "found 2, expected exactly 3\n  one event came near:\n    eventfd-90 [001] 0.000003: ret: ret=-11\n      rejected by `ret == 8`",
        ],
    );
    check(
        "count: { event: t:write, at_most: 1 }",
        EFD,
        Failed,
        &[
            "found 3, expected at most 1",
            "the first of them:\n    eventfd-90 [000] 0.000001: write: value=1 count=8",
        ],
    );
    check(
        "count: { event: t:nothing, is: 1 }",
        EFD,
        Failed,
        &["found 0, expected exactly 1", "no event `t:nothing`"],
    );
}

#[test]
fn the_nearest_misses_are_those_of_which_most_holds() {
    let trace = "
        1 0 a-1 t:e x=1 y=1 z=1
        2 0 a-1 t:e x=1 y=2 z=1
        3 0 a-1 t:e x=9 y=2 z=3
        4 0 a-1 t:e x=9 y=9 z=3
        5 0 a-1 t:e x=1 y=2 z=7
    ";
    check(
        "count: { event: t:e, where: x == 1 && y == 2 && z == 3, is: 1 }",
        trace,
        Failed,
        &[
            "nearest of 5 others:\n    a-1 [000] 0.000000: e: x=1 y=2 z=1\n      rejected by `z == 3`\n    a-1 [000] 0.000000: e: x=1 y=2 z=7\n      rejected by `z == 3`\n    a-1 [000] 0.000000: e: x=1 y=1 z=1\n      rejected by `y == 2`",
        ],
    );
}

#[test]
fn an_event_without_a_format_may_be_any_event() {
    let unknown = with("3900 1 a-1 :unknown");
    check(
        "never: { event: t:nothing }",
        &unknown,
        Inconclusive,
        &["1 event has an unknown format, as after an event was removed"],
    );
    check("count: { event: t:write, is: 3 }", &unknown, Inconclusive, &["found 3"]);
    check("count: { event: t:write, at_least: 3 }", &unknown, Passed, &[]);
    let both = with("3900 1 a-1 :unknown\nLOST 1 5 3900 -");
    check(
        "never: { event: t:nothing }",
        &both,
        Inconclusive,
        &["1 event has an unknown", "and 5 events were lost"],
    );
}

#[test]
fn counts_and_losses() {
    let lossy = with("LOST 1 5 3900 -");
    check("count: { event: t:write, at_least: 3 }", &lossy, Passed, &[]);
    check("count: { event: t:write, at_most: 2 }", &lossy, Failed, &["found 3"]);
    check(
        "count: { event: t:write, is: 3 }",
        &lossy,
        Inconclusive,
        &[
            "found 3, expected exactly 3, but 5 events were lost on CPU 1; `buffer_kb: 8192` would have held them (it was 4096)",
        ],
    );
    check("count: { event: t:write, at_least: 4 }", &lossy, Inconclusive, &[]);
    check("never: { event: t:write }", &lossy, Failed, &[]);
    check("never: { event: t:nothing }", &lossy, Inconclusive, &[]);
}

#[test]
fn never() {
    check("never: { event: t:ret, where: ret == -9 }", EFD, Passed, &["found 0"]);
    check(
        "never: { event: t:ret, where: ret < 0 }",
        EFD,
        Failed,
        &["found 1, expected none\n  it is:\n    eventfd-90 [001] 0.000003: ret: ret=-11"],
    );
}

#[test]
fn conditions() {
    let yes = |condition: &str| {
        check(&format!("count: {{ event: t:e, where: '{condition}', is: 1 }}"), EVENT, Passed, &[]);
    };
    const EVENT: &str = "5000000 3 sh-7 t:e s=-9 u=+8 big=0xffffffffffffffff text=\"/etc/x\" ip=@vfs_write+4 list=[+1,+2] pid=55";
    for condition in [
        "s == -9 && u == 8",
        "u > s",
        "u + 1 == 9",
        "big > 0 && big != 5",
        "text == \"/etc/x\" && text.startsWith(\"/etc\")",
        "text in [\"/a\", \"/etc/x\"]",
        "sym(ip) == \"vfs_write\"",
        "sym(u) == \"\"",
        "bits(u, 0xc) == 8",
        "bits(big, 0xf) == 15",
        "list[1] == 2 && size(list) == 2",
        "list.exists(x, x == u - 7)",
        "comm == \"sh\" && cpu == 3 && time == 5000000",
        "event == \"e\" && group == \"t\"",
        // The event's own field hides the common one, which has a second name.
        "pid == 55 && common_pid == 7",
        "u == 9 || s == -9",
        "u == 8 ? true : false",
    ] {
        yes(condition);
    }
}

#[test]
fn a_condition_that_cannot_be_evaluated_fails() {
    let wrong = |condition: &str, expect: &str| {
        let expectation = format!("never: {{ event: t:ret, where: '{condition}' }}");
        check(&expectation, EFD, Failed, &["the condition cannot be evaluated on 3 events", expect]);
    };
    wrong("rett == 8", "`rett == 8`: the event has no field `rett`; the event: eventfd-90");
    wrong("ret", "`ret`: it is not true or false");
    wrong("ret.startsWith(\"x\")", "startsWith");
    wrong("ret < \"x\"", "overload");
    // If another part is false, the error does not matter.
    check("never: { event: t:ret, where: rett == 8 && ret == 1 }", EFD, Passed, &[]);
}

#[test]
fn values() {
    let values = |equal: &str| format!("values: {{ event: t:write, field: value, equal: {equal} }}");
    check(&values("[1, 2, 4]"), EFD, Passed, &["found [1, 2, 4]"]);
    check(
        &values("[1, 2, 4, 7]"),
        EFD,
        Failed,
        &["found [1, 2, 4], expected [1, 2, 4, 7]\n  value 4, 7, is missing"],
    );
    check(
        &values("[1, 3, 4]"),
        EFD,
        Failed,
        &["the first difference is value 2, expected 3: eventfd-90 [000] 0.000002: write: value=2"],
    );
    check(&values("[1, 2]"), EFD, Failed, &["value 3 is one too many: eventfd-90 [001]"]);
    check(&values("[]"), EFD, Failed, &["value 1 is one too many"]);
    check("values: { event: t:write, field: pid, equal: [90, 90, 90] }", EFD, Passed, &[]);
    check("values: { event: t:ret, where: ret == 8, field: ret, equal: [8, 8] }", EFD, Passed, &[]);
    check(
        "values: { event: t:ret, where: ret == 8, field: ret, equal: [8, 8, 8] }",
        EFD,
        Failed,
        &["rejected by `ret == 8`"],
    );
    check(
        "values: { event: t:write, field: valu, equal: [1] }",
        EFD,
        Failed,
        &["no field `valu`; did you mean `value`?"],
    );
    let ips = "1 0 a-1 t:f ip=@vfs_write+4\n 2 0 a-1 t:f ip=@eventfd_write";
    check(
        "values: { event: t:f, field: ip, equal: [vfs_write, eventfd_write] }",
        ips,
        Passed,
        &["[vfs_write+0x4, eventfd_write]"],
    );
}

#[test]
fn values_and_losses() {
    let lossy = with("LOST 1 2 3900 -");
    let values = |equal: &str| format!("values: {{ event: t:write, field: value, equal: {equal} }}");
    check(&values("[1, 2, 4]"), &lossy, Inconclusive, &["found [1, 2, 4], but 2 events were lost"]);
    check(&values("[1, 2, 3, 4, 5]"), &lossy, Inconclusive, &[]);
    // No lost event turns 1, 2, 4 into these.
    check(&values("[1, 4, 2]"), &lossy, Failed, &["the first difference is value 2, expected 4"]);
    check(&values("[1, 2]"), &lossy, Failed, &["one too many"]);
}

#[test]
fn set() {
    let set = |rest: &str| format!("set: {{ event: t:write, field: value, {rest} }}");
    check(&set("equal: [4, 1, 2]"), EFD, Passed, &["found 3 values"]);
    check(&set("equal: [4, 1, 2, 9]"), EFD, Failed, &["found 3 values, 1 missing: [9]"]);
    check(
        &set("equal: [4, 1]"),
        EFD,
        Failed,
        &["1 of them not expected", "not expected:\n    2: eventfd-90"],
    );
    let twice = with("9000 0 eventfd-90 t:write value=+1 count=+8");
    check(&set("equal: [4, 1, 2]"), &twice, Failed, &["1 of them not expected"]);
    check(&set("equal: [4, 1, 2], distinct: true"), &twice, Passed, &[]);
    check(&set("equal: [4, 1, 1, 2]"), &twice, Passed, &[]);
    let lossy = with("LOST 0 1 - -");
    check(&set("equal: [4, 1, 2]"), &lossy, Inconclusive, &[]);
    check(&set("equal: [4, 1]"), &lossy, Failed, &[]);
}

const NESTED: &str = "
    100 0 a-1 t:in n=1
    150 1 b-2 t:in n=2
    200 0 a-1 t:in n=3
    300 0 a-1 t:out r=3
    350 1 b-2 t:out r=2
    900 0 a-1 t:out r=1
";

#[test]
fn pairs() {
    let pairs = |rest: &str| format!("pairs: {{ enter: t:in, return: t:out{rest} }}");
    check(&pairs(""), NESTED, Passed, &["found 3 pairs, each took 100ns to 800ns, 366ns on average"]);
    check(&pairs(", is: 3, within: 800ns"), NESTED, Passed, &[]);
    check(&pairs(", is: 2"), NESTED, Failed, &["found 3 pairs", "expected exactly 2"]);
    check(
        &pairs(", within: 500ns"),
        NESTED,
        Failed,
        &["1 took longer than 500ns:\n    800ns: a-1 [000] 0.000000: in: n=1"],
    );
    check(
        &pairs(""),
        "1 0 a-1 t:other x=1",
        Failed,
        &["found 0 pairs, expected at least 1", "no event `t:in`"],
    );
    let open = format!("{NESTED} 950 0 a-1 t:in n=9");
    check(
        &pairs(""),
        &open,
        Failed,
        &["1 without a return:\n    a-1 [000] 0.000000: in: n=9\n      still open at the end"],
    );
    check(&pairs(", allow_open: true"), &open, Passed, &[]);
    let stray = format!("50 0 c-3 t:out r=0 {NESTED}");
    check(&pairs(""), &stray, Failed, &["1 returned without an enter:\n    c-3"]);
    check(&pairs(", allow_open: true"), &stray, Passed, &[]);
    // A task is in between once when the trace begins, and once when it ends.
    let missing = "100 0 a-1 t:in n=1\n200 0 a-1 t:out r=1\n300 0 a-1 t:in n=2\n400 0 a-1 t:in n=3\n";
    check(&pairs(", allow_open: true"), missing, Failed, &["1 without a return:\n    a-1", "n=2"]);
    let late = "100 0 a-1 t:in n=1\n200 0 a-1 t:out r=1\n300 0 a-1 t:out r=2\n";
    check(&pairs(", allow_open: true"), late, Failed, &["1 returned without an enter:\n    a-1"]);
}

#[test]
fn pairs_with_conditions() {
    // The return of a rejected enter does not count, and is not taken for that of another enter.
    let pairs = "pairs: { enter: { event: t:in, where: n != 3 }, return: t:out, is: 2 }";
    check(pairs, NESTED, Passed, &[]);
    let pairs = "pairs: { enter: t:in, return: { event: t:out, where: r < 3 } }";
    check(
        pairs,
        NESTED,
        Failed,
        &["found 2 pairs", "1 without a return", "returned as a-1 [000] 0.000000: out: r=3"],
    );
}

#[test]
fn pairs_and_losses() {
    let pairs = |rest: &str| format!("pairs: {{ enter: t:in, return: t:out{rest} }}");
    let late = format!("{NESTED} LOST 0 1 9000 -");
    check(&pairs(""), &late, Inconclusive, &["found 3 pairs", "1 event was lost"]);
    check(&pairs(", within: 500ns"), &late, Failed, &["800ns"]);
    let inside = format!("{NESTED} LOST 0 1 400 500");
    check(&pairs(", within: 500ns"), &inside, Inconclusive, &[]);
}

#[test]
fn idle_tasks_of_two_cpus_are_two_tasks() {
    let trace =
        "1 0 <idle>-0 t:in n=1\n 2 1 <idle>-0 t:in n=2\n 3 0 <idle>-0 t:out r=1\n 9 1 <idle>-0 t:out r=2";
    check("pairs: { enter: t:in, return: t:out, within: 7ns }", trace, Passed, &["each took 2ns to 7ns"]);
}

#[test]
fn latency() {
    let trace = "
        1000 0 w-1 s:wakeup pid=5
        1100 0 w-1 s:wakeup pid=6
        1300 1 x-2 s:switch next_pid=6
        1400 1 x-2 s:switch next_pid=7
        2000 1 x-2 s:switch next_pid=5
        3000 0 w-1 s:wakeup pid=5
        3100 1 x-2 s:switch next_pid=5
    ";
    let latency =
        |rest: &str| format!("latency: {{ from: s:wakeup, to: s:switch, by: {{ pid: next_pid }}, {rest} }}");
    let figures = "measured 3 times: p50 200ns, p95 1µs, max 1µs";
    check(&latency("p50: 200ns, p95: 1us, max: 1us"), trace, Passed, &[figures]);
    check(&latency("p50: 199ns"), trace, Failed, &[figures, "expected p50 at most 199ns (2 took longer)"]);
    check(
        &latency("max: 999ns"),
        trace,
        Failed,
        &["max at most 999ns (1 took longer)\n  the longest ended with x-2"],
    );
    check(&latency("max: 1s, at_least: 4"), trace, Failed, &["expected at least 4"]);
    check(
        "latency: { from: s:a, to: s:b, max: 1s }",
        trace,
        Failed,
        &["measured no time, expected at least 1", "no event `s:a`"],
    );
    let inside = format!("{trace} LOST 0 1 1500 1600");
    check(&latency("max: 999ns"), &inside, Inconclusive, &[]);
    let outside = format!("{trace} LOST 0 1 5000 -");
    check(&latency("max: 999ns"), &outside, Failed, &[]);
    check(&latency("max: 1us"), &outside, Inconclusive, &[]);
}

#[test]
fn stack() {
    let trace = "
        1 0 a-1 t:e x=1
        2 0 a-1 ftrace:kernel_stack caller=[@eventfd_write+8,@vfs_write+4,@ksys_write,0xffffffffffffffff]
        3 0 a-1 t:e x=2
        4 1 b-2 ftrace:kernel_stack caller=[@schedule]
        5 0 a-1 ftrace:kernel_stack caller=[@__schedule,@schedule]
    ";
    let stack = |rest: &str| format!("stack: {{ event: t:e, {rest} }}");
    check(&stack("frames: [eventfd_write, ksys_write]"), trace, Passed, &["in 1 of 2 stacks"]);
    check(
        &stack("frames: [eventfd_write, ksys_write], strict: true"),
        trace,
        Failed,
        &["another frame comes between"],
    );
    check(&stack("frames: [eventfd_write, vfs_write], strict: true"), trace, Passed, &[]);
    check(
        &stack("where: x == 2, frames: [eventfd_write]"),
        trace,
        Failed,
        &["in 0 of 1 stacks", "__schedule < schedule\n      no `eventfd_write`"],
    );
    check("stack: { event: kernel_stack, where: pid == 2, frames: [schedule] }", trace, Passed, &[]);
    check(
        &stack("frames: [schedule]"),
        "1 0 a-1 t:e x=1",
        Failed,
        &["is the option or trigger `stacktrace` on?"],
    );
}

#[test]
fn a_stack_belongs_to_the_task_that_it_is_of() {
    let trace = "
        1 0 a-1 t:e x=1
        2 0 b-2 ftrace:kernel_stack caller=[@schedule]
        3 0 a-1 ftrace:kernel_stack caller=[@vfs_write]
    ";
    check("stack: { event: t:e, frames: [schedule] }", trace, Failed, &["in 0 of 1 stacks", "vfs_write\n"]);
    check("stack: { event: t:e, frames: [vfs_write] }", trace, Passed, &[]);
}
