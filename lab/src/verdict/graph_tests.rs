//! Tests of call trees: those that match, and messages about those that nearly do.

use crate::{
    results::OutcomeStatus::{Failed, Inconclusive, Passed},
    verdict::fixture::check,
};

#[test]
fn calls_whose_return_is_not_there_end_with_their_caller() {
    let trace = "
        10 0 sh-1 ftrace:funcgraph_entry func=@ksys_write depth=0
        11 0 sh-1 ftrace:funcgraph_entry func=@schedule depth=1
        12 0 sh-1 ftrace:funcgraph_exit func=@ksys_write depth=0
        13 0 sh-1 ftrace:funcgraph_entry func=@ksys_write depth=0
        14 0 sh-1 ftrace:funcgraph_entry func=@vfs_write depth=1
        15 0 sh-1 ftrace:funcgraph_exit func=@vfs_write depth=1
        16 0 sh-1 ftrace:funcgraph_exit func=@ksys_write depth=0
    ";
    check(
        "graph: { call: ksys_write, calls: [vfs_write], only: true, is: 1 }",
        trace,
        Passed,
        &["of 2 calls"],
    );
    check("graph: { call: schedule }", trace, Failed, &["found 0 such trees of 0 calls"]);
    // A second call of the root begins at the outermost level again.
    check("graph: { call: ksys_write, calls: [{ call: ksys_write }] }", trace, Failed, &[]);
}

#[test]
fn graph() {
    let trace = "
        10 0 sh-1 ftrace:funcgraph_entry func=@ksys_write depth=0
        11 0 sh-1 ftrace:funcgraph_entry func=@vfs_write depth=1
        12 0 sh-1 ftrace:funcgraph_entry func=@rw_verify_area depth=2
        13 0 sh-1 ftrace:funcgraph_exit func=@rw_verify_area depth=2 retval=+0
        14 1 b-2 ftrace:funcgraph_entry func=@vfs_write depth=0
        15 0 sh-1 ftrace:funcgraph_entry func=@eventfd_write depth=2
        20 0 sh-1 ftrace:funcgraph_exit func=@eventfd_write depth=2 retval=+8
        21 0 sh-1 ftrace:funcgraph_exit func=@vfs_write depth=1 retval=+8
        22 0 sh-1 ftrace:funcgraph_exit func=@ksys_write depth=0 retval=+8
        23 1 b-2 ftrace:funcgraph_exit func=@vfs_write depth=0 retval=0xfffffff5
    ";
    let graph = |rest: &str| format!("graph: {{ {rest} }}");
    check(
        &graph("call: vfs_write, calls: [eventfd_write], is: 1"),
        trace,
        Passed,
        &["found 1 such trees of 2 calls"],
    );
    check(
        &graph(
            "call: ksys_write, calls: [{ call: vfs_write, calls: [rw_verify_area, eventfd_write], only: true }]",
        ),
        trace,
        Passed,
        &[],
    );
    check(&graph("call: vfs_write, returns: -11, is: 1"), trace, Passed, &[]);
    check(&graph("call: vfs_write, depth: 1, is: 1, where: comm == \"sh\""), trace, Passed, &[]);
    check(
        &graph("call: vfs_write, calls: [{ call: eventfd_write, leaf: true, returns: 8, within: 5ns }]"),
        trace,
        Passed,
        &[],
    );
    check(
        &graph("call: vfs_write, calls: [eventfd_write, rw_verify_area]"),
        trace,
        Failed,
        &[
            "`vfs_write` calls [rw_verify_area, eventfd_write], expected `rw_verify_area` after `eventfd_write`",
            "`vfs_write` calls [], expected `eventfd_write`",
        ],
    );
    check(
        &graph("call: vfs_write, calls: [eventfd_write], only: true"),
        trace,
        Failed,
        &["calls [rw_verify_area, eventfd_write], expected no other calls"],
    );
    check(
        &graph("call: vfs_write, calls: [{ call: eventfd_write, within: 4ns }]"),
        trace,
        Failed,
        &["`eventfd_write` took 5ns, expected at most 4ns"],
    );
    check(
        &graph("call: vfs_write, calls: [{ call: eventfd_write, returns: 9 }]"),
        trace,
        Failed,
        &["`eventfd_write` returned 8, expected 9"],
    );
    check(
        &graph("call: vfs_write, calls: [{ call: rw_verify_area, calls: [schedule] }]"),
        trace,
        Failed,
        &["nearest of the others:\n    sh-1", "`rw_verify_area` calls [], expected `schedule`\n    b-2"],
    );
    check(
        &graph("call: eventfd_write, depth: 1"),
        trace,
        Failed,
        &["one event came near:\n    sh-1", "rejected by `depth: 1`, it is 2"],
    );
    // If there are too many, the others are not shown.
    let failed = check(&graph("call: vfs_write, at_most: 1"), trace, Failed, &["found 2 such trees"]);
    assert!(!failed.contains("nearest"), "{failed}");
    check(&graph("call: schedule"), trace, Failed, &["found 0 such trees of 0 calls of `schedule`"]);
    let lossy = format!("{trace} LOST 1 1 30 -");
    check(&graph("call: vfs_write, at_least: 2"), &lossy, Passed, &[]);
    check(&graph("call: vfs_write, is: 2"), &lossy, Inconclusive, &[]);
    check(&graph("call: vfs_write, is: 1"), &lossy, Failed, &[]);
}
