//! Traces that lost events, each on a real kernel: their expectations are inconclusive, not passed.

use crate::outcome::result;
use lab::results::{OutcomeStatus, Status};

/// Returns the fields of a scenario with the smallest possible buffer, two pages per CPU, and functions that are called
/// far more often between two reads of it than it has room for.
fn lossy(overwrite: &str) -> String {
    format!(
        "trace:
  tracer: function
  functions: ['_raw_spin_*']
  buffer_kb: 4
  options: {{ overwrite: {overwrite} }}
steps:
  - workload: eventfd --sleep 0 1 2 4 7 14
expect:
  - count: {{ event: function, at_most: 100000000 }}
  - never: {{ event: function, where: sym(ip) == \"no_such_function\" }}
  - count: {{ event: function, at_least: 1 }}
"
    )
}

/// Runs a scenario with these fields; returns its status, and the status and detail of each expectation.
fn judge(fields: &str) -> (Status, Vec<(OutcomeStatus, String)>) {
    let result = result(fields);
    let outcomes = result.expectations.into_iter().map(|outcome| (outcome.status, outcome.detail));
    (result.status, outcomes.collect())
}

/// Checks the verdict on a lossy trace: an expectation that is certain nevertheless holds; the others are
/// inconclusive, and report how many events were lost and the buffer size that would have held them.
fn check(yaml: &str) {
    let (status, outcomes) = judge(yaml);
    assert_eq!(status, Status::Inconclusive, "{outcomes:#?}");
    let [most, never, least] = outcomes.as_slice() else { panic!("{outcomes:#?}") };
    assert_eq!(least.0, OutcomeStatus::Passed, "{outcomes:#?}");
    for (status, detail) in [most, never] {
        assert_eq!(*status, OutcomeStatus::Inconclusive, "{outcomes:#?}");
        let (_, lost) = detail.split_once(", but ").unwrap_or_else(|| panic!("{detail}"));
        let lost = lost.strip_prefix("more than ").unwrap_or(lost);
        let number: u64 = lost.split(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{detail}"));
        assert!(number > 100, "{detail}");
        let (_, size) = detail.split_once("`buffer_kb: ").unwrap_or_else(|| panic!("{detail}"));
        let (size, rest) = size.split_once('`').unwrap();
        assert!(size.parse::<u64>().unwrap() > 4 && rest.contains("(it was 4)"), "{detail}");
    }
}

#[test]
fn overwritten_events_leave_expectations_inconclusive() {
    check(&lossy("on"));
}

#[test]
fn dropped_events_leave_expectations_inconclusive() {
    check(&lossy("off"));
}

/// The buffer size that the detail names is indeed sufficient.
#[test]
fn the_buffer_that_is_named_holds_all() {
    let (_, outcomes) = judge(&lossy("on"));
    let (_, size) = outcomes[0].1.split_once("`buffer_kb: ").unwrap();
    let (size, _) = size.split_once('`').unwrap();
    let (status, outcomes) = judge(&lossy("on").replace("buffer_kb: 4", &format!("buffer_kb: {size}")));
    assert_eq!(status, Status::Passed, "{outcomes:#?}");
}

/// A change of the tracer clears the buffer and its counters.
#[test]
fn events_that_were_lost_before_a_reset_are_not_forgotten() {
    let reset = "  - write: current_tracer\n    text: nop\nexpect:";
    for overwrite in ["on", "off"] {
        check(&lossy(overwrite).replace("expect:", reset));
    }
}

#[test]
fn events_that_something_else_read_are_lost() {
    let check = |event: &str, directory: &str| {
        let (status, outcomes) = judge(&format!(
            "trace:
  events: [ {{ event: 'sched:sched_process_exit', instance: other }} ]
steps:
  - write: {directory}trace_marker
    text: here
  - read: {directory}trace_pipe
    text: here
expect:
  - count: {{ event: {event}, is: 0 }}
"
        ));
        assert_eq!(status, Status::Inconclusive, "{outcomes:#?}");
        assert!(outcomes[0].1.contains("but 1 event was lost on CPU"), "{outcomes:#?}");
    };
    check("print", "");
    check("'sched_process_exit@other'", "instances/other/");
}

/// The lab reads the buffer while a program runs, and before one that may clear it.
#[test]
fn a_program_changes_the_tracer_again_and_again() {
    let changes = "echo current_tracer function\\necho current_tracer nop\\n".repeat(30);
    let (status, outcomes) = judge(&format!(
        "trace:
  events: [{{ event: 'sched:sched_process_exit' }}]
steps:
  - workload: eventfd --sleep 0 1 2 4 7 14
  - workload: calls
    stdin: \"echo set_ftrace_filter eventfd_read\\n{changes}\"
expect:
  - count: {{ event: sched_process_exit, where: comm == \"eventfd\", is: 2 }}
"
    ));
    assert_eq!(status, Status::Passed, "{outcomes:#?}");
}
