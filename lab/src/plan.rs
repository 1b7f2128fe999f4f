//! Scenario → [`Plan`]: the writes that arm its trace, in an order that the kernel accepts.
//!
//! A pure function. What is written where follows the kernel's Documentation/trace; nothing here
//! knows of a guest.

use crate::{
    families,
    kernel::{Kernel, WITHOUT_VMLINUX},
    scenario::{DEFAULT_BUFFER_KB, EventSpec, KernelParameter, Scenario, TraceSetup, UserPlaces, Wanted},
};
use protocol::WriteMode;

/// What a scenario requires and this kernel does not have, in words.
pub fn unmet(scenario: &Scenario, kernel: &Kernel) -> Option<String> {
    let requires = &scenario.requires;
    if let Some(versions) = &requires.kernel
        && !versions.matches(&kernel.version)
    {
        return Some(format!("it is for kernels {versions}, and this one is {}", kernel.version));
    }
    if scenario.attaches_crash() && kernel.version.major >= 7 && !scenario.modules().is_empty() {
        // "invalid structure member offset: module_num_gpl_syms", as soon as one is loaded (7.2).
        return Some("crash 8.0.6, Debian 13's, does not read the modules of kernels from 7.0".to_owned());
    }
    if let Some(reason) = unmounted(scenario, kernel).or_else(|| unshipped(scenario, kernel)) {
        return Some(reason);
    }
    if let Some(reason) = families::unmet(&scenario.trace, &kernel.version, kernel.config()) {
        return Some(reason);
    }
    let of_bootconfig = scenario.bootconfig.as_ref().map(|_| "BOOT_CONFIG");
    let mut config = requires.config.iter().map(|symbol| symbol.as_str()).chain(of_bootconfig);
    let missing = config.find(|symbol| !kernel.config().is_set(symbol))?;
    Some(format!("CONFIG_{missing} is not set in this kernel"))
}

/// A userland's root is mounted before anything could load a module for it.
fn unmounted(scenario: &Scenario, kernel: &Kernel) -> Option<String> {
    scenario.userland.as_ref()?;
    let version = (kernel.version.major, kernel.version.minor);
    // mount_root() knows of other file systems since 5.15.
    if version < (5, 15) && !kernel.config().is_set("BLOCK") {
        return Some(
            "before 5.15 a kernel without CONFIG_BLOCK mounts no root, and so no userland".to_owned(),
        );
    }
    let missing = ["VIRTIO_PCI", "NET_9P_VIRTIO", "9P_FS"];
    let missing = missing.into_iter().find(|symbol| kernel.config().get(symbol) != Some("y"))?;
    Some(format!("CONFIG_{missing} is not built into this kernel, which cannot mount a userland then"))
}

/// What a kernel that is as it was shipped does not have.
fn unshipped(scenario: &Scenario, kernel: &Kernel) -> Option<String> {
    if !kernel.is_shipped() {
        return None;
    }
    let is_sample = |wanted: &Wanted| matches!(wanted, Wanted::Sample(_));
    if scenario.reads_text() || scenario.reads_memory() || scenario.attaches_crash() {
        return Some(WITHOUT_VMLINUX.to_owned());
    }
    if !scenario.selftests().is_empty() {
        return Some("this kernel was shipped without its source, which has the selftests".to_owned());
    }
    let samples = scenario.modules().iter().any(is_sample);
    samples.then(|| "this kernel was shipped without its samples".to_owned())
}

/// Where a tracing instance is, relative to tracefs; the top-level one is `""`.
pub(crate) fn directory(instance: Option<&str>) -> String {
    instance.map(|name| format!("instances/{name}")).unwrap_or_default()
}

/// A file of a tracing instance, relative to tracefs.
pub(crate) fn below(instance: Option<&str>, file: &str) -> String {
    match instance {
        Some(name) => format!("instances/{name}/{file}"),
        None => file.to_owned(),
    }
}

/// What is done in tracefs before the first step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Directories that are made first, relative to tracefs: tracing instances.
    pub directories: Vec<String>,
    /// The writes, in order.
    pub arming: Vec<Arm>,
}

/// One write below tracefs.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// The file, relative to tracefs.
    pub file: String,
    /// What is written, without the newline behind it.
    pub text: String,
    /// `>` or `>>`.
    pub mode: WriteMode,
}

/// The kernel parameters of a scenario. What [`Plan::of`] would do to an empty ring buffer is done
/// to it before the first event where the command line traces the boot.
pub fn cmdline(scenario: &Scenario) -> Vec<String> {
    if !scenario.traces_boot() {
        return Vec::new();
    }
    let trace = &scenario.trace;
    // The scenario's own words are last, and count.
    let size = format!("trace_buf_size={}K", trace.buffer_kb.unwrap_or(DEFAULT_BUFFER_KB));
    let clock = trace.clock.map(|clock| format!("trace_clock={}", clock.name()));
    // Without the first of these words the kernel cuts a bootconfig off and does not read it. With a
    // bootconfig alone the ring buffer stays at its least, a page or two a CPU, until someone opens
    // it: `trace_event=`, of no event, gives it its size from the start (5.10 to 7.2).
    let bootconfig = match scenario.bootconfig {
        Some(_) => &["bootconfig", "trace_event="][..],
        None => &[],
    };
    let own = scenario.cmdline.0.iter().map(KernelParameter::as_str);
    let own = bootconfig.iter().copied().chain(own).map(str::to_owned);
    [size].into_iter().chain(clock).chain(own).collect()
}

impl Plan {
    /// The plan of a scenario's `trace:`, given where `places` of workloads are in their files.
    pub fn of(scenario: &Scenario, places: &UserPlaces) -> Plan {
        Plan::arming(&scenario.trace, scenario.traces_boot(), places)
    }

    fn arming(trace: &TraceSetup, traced_boot: bool, places: &UserPlaces) -> Plan {
        let mut plan = Plan::default();
        // What the boot left in the buffer stays: it is cleared by a smaller size, by any write of
        // the clock, and, under the function tracer, by tracing that goes off and on (6.12,
        // tracing_set_clock and function_trace_start).
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
        // Last: from here on functions are traced.
        if let Some(tracer) = &trace.tracer {
            plan.set("current_tracer", tracer.as_str());
        }
        plan
    }

    /// An empty ring buffer that records nothing yet.
    fn buffer(&mut self, trace: &TraceSetup, instance: Option<&str>) {
        // Nothing of the arming itself belongs into the trace.
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
        self.arming.push(Arm { file: file.into(), text: text.into(), mode: WriteMode::Truncate });
    }

    fn add(&mut self, file: impl Into<String>, text: impl Into<String>) {
        self.arming.push(Arm { file: file.into(), text: text.into(), mode: WriteMode::Append });
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
            .arming
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
        let arming = Plan::of(&with_bootconfig, &UserPlaces::new()).arming;
        assert!(arming.iter().all(|arm| arm.file != "tracing_on"), "{arming:?}");
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
            "{ events: [ { synthetic: wake, fields: { lat: u64 }, triggers: ['hist:keys=lat'], fed_by: [ \
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
