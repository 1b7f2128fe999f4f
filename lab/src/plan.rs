//! Scenario → [`Plan`]: the writes that arm its trace, in an order that the kernel accepts.
//!
//! A pure function. Files and syntax follow the kernel's Documentation/trace; nothing here depends on a
//! guest.

use crate::scenario::{DEFAULT_BUFFER_KB, EventSpec, KernelParameter, Scenario, TraceSetup, UserPlaces};
use protocol::WriteMode;

/// Returns the directory of a tracing instance, relative to tracefs; the top-level one is `""`.
pub(crate) fn directory(instance: Option<&str>) -> String {
    instance.map(|name| format!("instances/{name}")).unwrap_or_default()
}

/// Returns the path of a file of a tracing instance, relative to tracefs.
pub(crate) fn below(instance: Option<&str>, file: &str) -> String {
    match instance {
        Some(name) => format!("instances/{name}/{file}"),
        None => file.to_owned(),
    }
}

/// The setup of tracefs before the first step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The directories to create first, relative to tracefs: tracing instances.
    pub directories: Vec<String>,
    /// The writes, in order.
    pub writes: Vec<TracefsWrite>,
}

/// One write below tracefs.
#[derive(Clone, Debug, PartialEq)]
pub struct TracefsWrite {
    /// The file, relative to tracefs.
    pub file: String,
    /// The text to write, without the final newline.
    pub text: String,
    /// `>` or `>>`.
    pub mode: WriteMode,
}

/// Returns the kernel parameters of a scenario. If they trace the boot, they also set up the ring buffer
/// before the first event, which [`Plan::of`] does in other scenarios.
pub fn cmdline(scenario: &Scenario) -> Vec<String> {
    if !scenario.traces_boot() {
        return Vec::new();
    }
    let trace = &scenario.trace;
    // The scenario's own parameters are last, and override the others.
    let size = format!("trace_buf_size={}K", trace.buffer_kb.unwrap_or(DEFAULT_BUFFER_KB));
    let clock = trace.clock.map(|clock| format!("trace_clock={}", clock.name()));
    // Without `bootconfig` the kernel removes a bootconfig and ignores it. With a bootconfig alone the ring
    // buffer keeps its minimum size, one or two pages per CPU, until it is opened: an empty `trace_event=`
    // makes the kernel allocate its full size at boot (5.10 to 7.2).
    let bootconfig = match scenario.bootconfig {
        Some(_) => &["bootconfig", "trace_event="][..],
        None => &[],
    };
    let own = scenario.cmdline.0.iter().map(KernelParameter::as_str);
    let own = bootconfig.iter().copied().chain(own).map(str::to_owned);
    [size].into_iter().chain(clock).chain(own).collect()
}

impl Plan {
    /// Returns the plan for a scenario's `trace:`; `places` has the file offsets of workload functions.
    pub fn of(scenario: &Scenario, places: &UserPlaces) -> Plan {
        Plan::writes(&scenario.trace, scenario.traces_boot(), places)
    }

    fn writes(trace: &TraceSetup, traced_boot: bool, places: &UserPlaces) -> Plan {
        let mut plan = Plan::default();
        // Keep the boot's events in the buffer: shrinking it clears it, and so does any write of the clock
        // and, with the function tracer, turning tracing off and on (6.12, tracing_set_clock and
        // function_trace_start).
        if !traced_boot {
            plan.buffer(trace, None);
        }
        for instance in trace.instances() {
            plan.directories.push(directory(Some(instance)));
            plan.buffer(trace, Some(instance));
        }
        for (option, on) in &trace.options {
            plan.set(format!("options/{}", option.as_str()), if on.0 { "1" } else { "0" });
        }
        for (file, functions) in [
            ("set_ftrace_filter", &trace.functions),
            ("set_ftrace_notrace", &trace.notrace),
            ("set_graph_function", &trace.graph_functions),
        ] {
            for function in functions {
                plan.add(file, function.as_str());
            }
        }
        for event in &trace.events {
            plan.event(event, places);
        }
        // Last, because functions are traced from here on.
        if let Some(tracer) = &trace.tracer {
            plan.set("current_tracer", tracer.as_str());
        }
        plan
    }

    /// Sets up an empty ring buffer that does not record yet.
    fn buffer(&mut self, trace: &TraceSetup, instance: Option<&str>) {
        // The trace must not contain the arming itself.
        self.set(below(instance, "tracing_on"), "0");
        let size = trace.buffer_kb.unwrap_or(DEFAULT_BUFFER_KB).to_string();
        self.set(below(instance, "buffer_size_kb"), size);
        if let Some(clock) = trace.clock {
            self.set(below(instance, "trace_clock"), clock.name());
        }
    }

    fn event(&mut self, event: &EventSpec, places: &UserPlaces) {
        if let Some(definition) = event.definition(places) {
            self.add(definition.file, definition.line);
        }
        let file = |group: &str, name: &str, file: &str| {
            below(event.instance(), &format!("events/{group}/{name}/{file}"))
        };
        for feed in event.feeds() {
            self.add(file(&feed.event.system, &feed.event.name, "trigger"), feed.trigger.as_str());
        }
        let own = |name: &str| file(event.group(), event.name(), name);
        if let Some(filter) = event.filter() {
            self.set(own("filter"), filter);
        }
        for trigger in event.triggers() {
            self.add(own("trigger"), trigger.as_str());
        }
        self.set(own("enable"), "1");
    }

    fn set(&mut self, file: impl Into<String>, text: impl Into<String>) {
        self.writes.push(TracefsWrite { file: file.into(), text: text.into(), mode: WriteMode::Truncate });
    }

    fn add(&mut self, file: impl Into<String>, text: impl Into<String>) {
        self.writes.push(TracefsWrite { file: file.into(), text: text.into(), mode: WriteMode::Append });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(trace: &str, cmdline: &str) -> Scenario {
        let yaml = format!(
            "summary: x\ntrace: {trace}\ncmdline: {cmdline}\nexpect: [ kernel_log: {{ never: [BUG] }} ]"
        );
        Scenario::parse(std::path::Path::new("x.yaml"), &yaml).unwrap()
    }

    fn check(trace: &str, expect: &[&str]) {
        check_traced_boot(trace, "[]", expect);
    }

    fn check_traced_boot(trace: &str, parameters: &str, expect: &[&str]) {
        let found: Vec<String> = Plan::of(&scenario(trace, parameters), &UserPlaces::new())
            .writes
            .iter()
            .map(|arm| {
                let arrow = if arm.mode == WriteMode::Append { ">>" } else { ">" };
                format!("{} {arrow} {}", arm.text, arm.file)
            })
            .collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn nothing_asked_for_still_has_a_buffer() {
        check("{}", &["0 > tracing_on", "4096 > buffer_size_kb"]);
    }

    #[test]
    fn what_a_boot_left_in_the_buffer_is_not_cleared() {
        let trace = "{ clock: mono, buffer_kb: 64, functions: [vfs_read], tracer: function }";
        check_traced_boot(
            trace,
            "initcall_debug trace_event=initcall:*",
            &["vfs_read >> set_ftrace_filter", "function > current_tracer"],
        );
        assert_eq!(
            cmdline(&scenario(trace, "initcall_debug trace_event=initcall:*")),
            ["trace_buf_size=64K", "trace_clock=mono", "initcall_debug", "trace_event=initcall:*"]
        );
        assert_eq!(cmdline(&scenario(trace, "[]")), [""; 0]);
        let with_bootconfig = scenario(trace, "quiet\nbootconfig: ftrace.tracer = nop");
        assert_eq!(
            cmdline(&with_bootconfig),
            ["trace_buf_size=64K", "trace_clock=mono", "bootconfig", "trace_event=", "quiet"]
        );
        let writes = Plan::of(&with_bootconfig, &UserPlaces::new()).writes;
        assert!(writes.iter().all(|arm| arm.file != "tracing_on"), "{writes:?}");
    }

    #[test]
    fn everything_is_armed_before_the_tracer() {
        check(
            "{ tracer: function, functions: [vfs_write, 'eventfd_*'], clock: mono, buffer_kb: 64, \
               options: { func_stack_trace: on } }",
            &[
                "0 > tracing_on",
                "64 > buffer_size_kb",
                "mono > trace_clock",
                "1 > options/func_stack_trace",
                "vfs_write >> set_ftrace_filter",
                "eventfd_* >> set_ftrace_filter",
                "function > current_tracer",
            ],
        );
    }

    #[test]
    fn a_probe_is_defined_filtered_and_enabled_in_this_order() {
        check(
            "{ events: [ { kretprobe: vfs_read, name: r, group: g, maxactive: 4, args: { ret: '$retval' }, \
               filter: ret > 0, triggers: [stacktrace] }, { event: 'sched:sched_switch' } ] }",
            &[
                "0 > tracing_on",
                "4096 > buffer_size_kb",
                "r4:g/r vfs_read ret=$retval >> kprobe_events",
                "ret > 0 > events/g/r/filter",
                "stacktrace >> events/g/r/trigger",
                "1 > events/g/r/enable",
                "1 > events/sched/sched_switch/enable",
            ],
        );
    }

    #[test]
    fn a_synthetic_event_is_there_before_the_triggers_that_make_it() {
        check(
            "{ events: [ { synthetic: wake, fields: { lat: u64 }, triggers: ['hist:keys=lat'], sources: [ \
               { event: 'sched:sched_waking', trigger: 'hist:keys=pid:ts=common_timestamp' }, \
               { event: 'sched:sched_switch', trigger: 'hist:keys=next_pid' } ] } ] }",
            &[
                "0 > tracing_on",
                "4096 > buffer_size_kb",
                "wake u64 lat >> synthetic_events",
                "hist:keys=pid:ts=common_timestamp >> events/sched/sched_waking/trigger",
                "hist:keys=next_pid >> events/sched/sched_switch/trigger",
                "hist:keys=lat >> events/synthetic/wake/trigger",
                "1 > events/synthetic/wake/enable",
            ],
        );
    }

    #[test]
    fn an_instance_has_a_buffer_and_the_files_of_its_events() {
        let trace = "{ clock: mono, events: [ { kprobe: vfs_read, name: r, instance: a, filter: common_pid != 1 }, \
                       { event: 'kprobes:r' }, { event: 'sched:sched_switch', instance: a } ] }";
        check(
            trace,
            &[
                "0 > tracing_on",
                "4096 > buffer_size_kb",
                "mono > trace_clock",
                "0 > instances/a/tracing_on",
                "4096 > instances/a/buffer_size_kb",
                "mono > instances/a/trace_clock",
                "p:kprobes/r vfs_read >> kprobe_events",
                "common_pid != 1 > instances/a/events/kprobes/r/filter",
                "1 > instances/a/events/kprobes/r/enable",
                "1 > events/kprobes/r/enable",
                "1 > instances/a/events/sched/sched_switch/enable",
            ],
        );
        let plan = Plan::of(&scenario(trace, "[]"), &UserPlaces::new());
        assert_eq!(plan.directories, ["instances/a"]);
    }
}
