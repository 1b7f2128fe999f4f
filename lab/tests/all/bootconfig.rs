//! A bootconfig that the kernel rejects: it boots without, and the lab reports the reason.

use crate::outcome::result;
use lab::results::Status;

fn check(bootconfig: &str, reason: &str) {
    let result = result(&format!("bootconfig: '{bootconfig}'\nsteps: [ {{ read: trace_clock }} ]"));
    assert_eq!(result.status, Status::Failed, "{}", result.reason);
    let expect = format!("the kernel refused the bootconfig: {reason}");
    assert!(result.reason.contains(&expect), "`{expect}` is not in `{}`", result.reason);
}

#[test]
fn one_that_is_not_well_formed_is_refused() {
    check("ftrace {", "Failed to parse bootconfig: Brace is not closed at ");
}

#[test]
fn one_that_asks_for_what_the_kernel_does_not_have_is_refused() {
    check("ftrace.tracer = nothing", "trace_boot: Failed to set given tracer: nothing");
    check(
        "ftrace.event.kprobes.x.probes = \"nothing\"",
        "trace_boot: Failed to add probe: p:kprobes/x nothing",
    );
}
