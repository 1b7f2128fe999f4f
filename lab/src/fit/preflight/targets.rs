//! Lists the functions that a scenario probes or traces by name.

use crate::{
    fit::resolve::tracepoint_stub,
    kernel::Want,
    scenario::{EventSpec, HOOK_MODULE, ModuleRef, ProbeKind, Scenario, Step, TraceSetup},
};
use std::borrow::Cow;

/// A function that a scenario probes or traces.
pub(super) struct Target<'a> {
    /// The probe, filter or hook, such as "kprobe".
    pub(super) what: &'static str,
    pub(super) want: Want,
    /// The function.
    pub(super) name: Cow<'a, str>,
    /// Configuration symbols that this needs; those of events are in `event_support`.
    pub(super) symbols: &'static [&'static str],
}

/// What a probe at a tracepoint is called; its function is the stub of the tracepoint.
pub(super) const TRACEPOINT_PROBE: &str = "tracepoint probe";

/// Returns all of them, in the order in which they are armed.
pub(super) fn of(scenario: &Scenario) -> Vec<Target<'_>> {
    let filters = filters(&scenario.trace);
    let probes = scenario.trace.events.iter().filter_map(probe);
    filters.chain(probes).chain(hooks(scenario)).collect()
}

fn filters(trace: &TraceSetup) -> impl Iterator<Item = Target<'_>> {
    const TRACED: &[&str] = &["DYNAMIC_FTRACE"];
    const GRAPH: &[&str] = &["DYNAMIC_FTRACE", "FUNCTION_GRAPH_TRACER"];
    let files = [
        ("filter `functions`", &trace.functions, TRACED),
        ("filter `notrace`", &trace.notrace, TRACED),
        ("filter `graph_functions`", &trace.graph_functions, GRAPH),
    ];
    files.into_iter().flat_map(|(what, lines, symbols)| {
        let plain = lines.iter().map(|line| line.trim()).filter(|line| is_function(line));
        plain.map(move |name| Target { what, want: Want::Ftrace, name: name.into(), symbols })
    })
}

fn probe(event: &EventSpec) -> Option<Target<'_>> {
    let probe = event.probe()?;
    let name = probe.target.split('+').next()?;
    let (what, want) = match probe.kind {
        ProbeKind::Kprobe => ("kprobe", Want::Kprobe),
        ProbeKind::Kretprobe => ("kretprobe", Want::Kprobe),
        ProbeKind::Fprobe => ("fprobe", Want::Ftrace),
        ProbeKind::Fexit => ("fexit probe", Want::Ftrace),
        ProbeKind::Tprobe => {
            let name = tracepoint_stub(name).into();
            return Some(Target { what: TRACEPOINT_PROBE, want: Want::Ftrace, name, symbols: &[] });
        }
        // These probe programs or events, not functions of the kernel.
        ProbeKind::Uprobe | ProbeKind::Uretprobe | ProbeKind::Eprobe => return None,
    };
    is_function(name).then_some(Target { what, want, name: name.into(), symbols: &[] })
}

/// Returns the functions of hooks that must succeed.
fn hooks(scenario: &Scenario) -> impl Iterator<Item = Target<'_>> {
    let commands = scenario.steps.iter().filter_map(|step| match &step.value {
        Step::Hook(step) if step.errno.is_none() => Some(&step.hook),
        _ => None,
    });
    let places = commands.flat_map(|command| command.places()).filter(|place| is_function(place));
    places.map(|name| Target { what: "hook", want: Want::Ftrace, name: name.into(), symbols: &[] })
}

/// Returns whether this is a function of the kernel itself, not a glob, an address, a function of a module or
/// a command.
fn is_function(text: &str) -> bool {
    let begins = |c: char| c == '_' || c.is_ascii_alphabetic();
    let good = |c: char| c == '_' || c == '.' || c == '$' || c.is_ascii_alphanumeric();
    text.starts_with(begins) && text.chars().all(good)
}

/// Returns whether a function that the kernel itself lacks may be in a module. The hook of a step can find
/// modules loaded before it; probes and filters armed before the first step only the lab's hook module.
pub(super) fn of_module(asked: &Target<'_>, scenario: &Scenario) -> bool {
    let mut modules = scenario.modules().into_iter();
    match asked.what {
        // It may be defined before the module that brings the tracepoint is loaded.
        TRACEPOINT_PROBE => modules.next().is_some(),
        "hook" => modules.any(|wanted| !is_hook_module(&wanted)) || asked.name.starts_with(HOOK_MODULE),
        _ => modules.any(|wanted| is_hook_module(&wanted)),
    }
}

fn is_hook_module(wanted: &ModuleRef) -> bool {
    matches!(wanted, ModuleRef::Named(name) if name == HOOK_MODULE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn functions_are_found_where_they_are_named() {
        let check = |yaml: &str, expect: &[(&str, &str)]| {
            let yaml = format!("summary: x\n{yaml}\nexpect: [ kernel_log: {{ never: [BUG] }} ]");
            let scenario = Scenario::parse(Path::new("x.yaml"), &yaml).unwrap();
            let found: Vec<_> = of(&scenario);
            let found: Vec<_> = found.iter().map(|asked| (asked.what, &*asked.name)).collect();
            assert_eq!(found, expect, "{yaml}");
        };
        check(
            "trace: { functions: [vfs_read, 'vfs_*', 'x:mod:y', '17', 'vfs_write:traceoff'], notrace: [a], \
             graph_functions: [b.isra.0] }",
            &[
                ("filter `functions`", "vfs_read"),
                ("filter `notrace`", "a"),
                ("filter `graph_functions`", "b.isra.0"),
            ],
        );
        check(
            "trace: { events: [ { kprobe: vfs_read+8, name: a }, { kprobe: m:f, name: b }, \
             { kprobe: '0xffff800080010000', name: c }, { kretprobe: vfs_write, name: d }, \
             { function: 'vfs_open(ptr path)' }, \
             { tprobe: sched_switch, name: e }, { event: 'sched:sched_switch' } ] }",
            &[
                ("kprobe", "vfs_read"),
                ("kretprobe", "vfs_write"),
                ("kprobe", "vfs_open"),
                ("tracepoint probe", "__probestub_sched_switch"),
            ],
        );
        check(
            "steps: [ { hook: '+f symbol=vfs_read,vfs_*,@vfs_write+4' }, { hook: 'f filter +vfs_open' }, \
             { hook: 'f notrace -vfs_close' }, { hook: 'f filter gone', errno: EINVAL }, { hook: '-f' }, \
             { write: kprobe_events, text: 'p:x tracing_mark_write' } ]",
            &[("hook", "vfs_read"), ("hook", "vfs_open"), ("hook", "vfs_close")],
        );
    }
}
