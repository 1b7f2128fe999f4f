//! What steps do to the ring buffers: which of them may clear one, and when the lab must not read it.

use crate::scenario::{Scenario, Step, TraceSetup};

/// At each new maximum, these tracers exchange the buffer for that of the snapshot, which has counters of its
/// own. They cannot be compared with what was read from both.
const LATENCY_TRACERS: [&str; 6] =
    ["irqsoff", "preemptoff", "preemptirqsoff", "wakeup", "wakeup_rt", "wakeup_dl"];

/// Returns whether a tracer exchanges the buffers.
pub(super) fn exchanges_buffers(tracer: &str) -> bool {
    LATENCY_TRACERS.contains(&tracer)
}

/// Returns whether events stay in the buffer during the step of this number. They do if the tracer keeps those of the
/// maximum latency, since what was read before the exchange is missing there; if the scenario has no trace and the
/// buffer is that of its scripts; if the step itself changes the tracer; and, to compare the kernel's text of them, if
/// no later step may clear the buffer.
pub(super) fn stay(scenario: &Scenario, number: usize) -> bool {
    let mut rest = scenario.steps.iter().skip(number.saturating_sub(1)).map(|step| &step.value);
    rest.next().is_some_and(changes_tracer)
        || scenario.trace.tracer.as_ref().is_some_and(|tracer| exchanges_buffers(tracer.as_str()))
        || scenario.trace == TraceSetup::default() && scenario.shells().next().is_some()
        || scenario.compares_kernel_text() && !rest.any(may_clear)
}

/// Returns whether a step may clear the buffer: changing the tracer or removing an event does. A module, a script or a
/// program that reads its stdin may do either.
pub(super) fn may_clear(step: &Step) -> bool {
    match step {
        Step::Write(write) => !is_message(write.write.as_str()),
        Step::Workload(workload) => !workload.stdin.is_empty() || changes_tracer(step),
        Step::Load(_) | Step::LoadModule(_) | Step::Unload(_) | Step::Shell(_) | Step::Kselftest(_) => true,
        _ => false,
    }
}

/// Returns whether a program or a script changes the tracer, which fails with EBUSY while the lab reads the buffer.
fn changes_tracer(step: &Step) -> bool {
    let names_it = |text: &str| text.contains("current_tracer");
    match step {
        Step::Workload(step) => {
            names_it(&step.stdin) || step.workload.arguments().iter().any(|argument| names_it(argument))
        }
        Step::Shell(step) => names_it(step.sh.as_str()),
        _ => false,
    }
}

/// Returns whether a write to this file only adds an event.
fn is_message(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    matches!(name, "trace_marker" | "trace_marker_raw" | "inject")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn events_stay_where_reading_them_would_disturb() {
        let check = |rest: &str, expect: &[bool]| {
            let scenario = Scenario::parse(Path::new("s.yaml"), &format!("summary: s\n{rest}")).unwrap();
            let steps: Vec<_> = (1..=scenario.steps.len()).map(|number| stay(&scenario, number)).collect();
            assert_eq!(steps, expect, "{rest}");
        };
        let traced = "trace: { events: [{ event: 'sched:sched_switch' }] }\n";
        let steps = "steps:\n- { write: trace_options, text: raw }\n- { workload: calls }\n";
        let expect = "expect:\n- { count: { event: 'sched:sched_switch', at_least: 1 } }\n";
        check(&format!("{traced}{steps}{expect}"), &[false, false]);
        // What was read before the maximum is missing in its buffer.
        check(&format!("trace: {{ tracer: wakeup }}\n{steps}"), &[true, true]);
        // The buffer is that of the scripts.
        check("steps:\n- { sh: echo }\n- { workload: calls }\n", &[true, true]);
        // The tracer is busy while its buffer is read.
        let program = "steps:\n- { workload: calls --write current_tracer nop }\n- { workload: calls }\n";
        check(&format!("{traced}{program}{expect}"), &[true, false]);
        // The kernel's text is compared: nothing after the first step clears the buffer, but that one does.
        let text = "expect:\n- { kernel_text: {} }\n";
        check(&format!("{traced}{steps}{text}"), &[true, true]);
        check(
            &format!("{traced}steps:\n- {{ workload: calls }}\n- {{ write: trace, text: '' }}\n{text}"),
            &[false, true],
        );
    }
}
