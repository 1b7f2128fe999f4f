//! Each kind of state that steps may leave behind is reported, on a real kernel.

use crate::outcome::result;
use lab::results::Status;

/// Runs steps, and checks the beginnings of the lines that report what they left behind.
fn check(steps: &[&str], expect: &[&str]) {
    let steps: String = steps.iter().map(|step| format!("  - {{ {step} }}\n")).collect();
    let result = result(&format!("steps:\n{steps}"));
    assert_eq!(result.status, Status::Passed, "{}", result.reason);
    let mut found = result.left_behind.clone();
    for begins in expect {
        let place = found.iter().position(|line| line.starts_with(begins));
        found.remove(place.unwrap_or_else(|| panic!("no `{begins}` in {:?}", result.left_behind)));
    }
    assert!(found.is_empty(), "unexpected: {found:?}");
}

#[test]
fn probes_events_and_filters() {
    check(
        &[
            "write: kprobe_events, text: 'p:kprobes/left vfs_read', append: true",
            "write: events/sched/sched_switch/enable, text: '1'",
            "write: set_ftrace_notrace, text: vfs_open",
            "write: set_graph_function, text: vfs_fsync",
            "write: set_ftrace_pid, text: '1'",
            "write: set_event_pid, text: '1'",
        ],
        &[
            "probe p:kprobes/left vfs_read",
            "event sched:sched_switch",
            "notrace filter vfs_open",
            "graph filter vfs_fsync",
            "pid filter 1",
            "pid filter of events 1",
        ],
    );
}

#[test]
fn a_tracer_and_its_hooks() {
    check(
        &["write: set_ftrace_filter, text: vfs_read", "write: current_tracer, text: function"],
        &["tracer function", "filter vfs_read", "hook vfs_read (1)"],
    );
}

#[test]
fn a_module_with_its_kprobe_and_its_taint() {
    check(
        &["load: deaths", "load: kprobe_example"],
        &["module deaths", "module kprobe_example", "kprobe k kernel_clone+0x0", "taint O"],
    );
}

#[test]
fn the_instance_of_a_module() {
    check(&["load: sample_trace_array"], &["instance sample-instance", "module sample_trace_array"]);
}

#[test]
fn what_is_put_right_again_is_not_left() {
    check(
        &[
            "load: sample_trace_array",
            "unload: sample_trace_array",
            "write: kprobe_events, text: 'p:kprobes/left vfs_read', append: true",
            "write: kprobe_events, text: '-:kprobes/left', append: true",
            "write: current_tracer, text: function",
            "write: current_tracer, text: nop",
        ],
        &[],
    );
}
