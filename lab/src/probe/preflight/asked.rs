//! Which functions a scenario wants to probe or trace by name.

use super::Want;
use crate::scenario::{EventSpec, HOOK_MODULE, ProbeKind, Scenario, Step, TraceSetup, Wanted};

/// A function that a scenario wants something of.
pub(super) struct Asked<'a> {
    /// What it wants, as in "the kprobe".
    pub(super) what: &'static str,
    pub(super) want: Want,
    /// The function.
    pub(super) name: &'a str,
    /// Configuration symbols without which no kernel has that; what events need is known elsewhere.
    pub(super) families: &'static [&'static str],
}

/// All of them, in the order in which they are armed.
pub(super) fn of(scenario: &Scenario) -> Vec<Asked<'_>> {
    let filters = filters(&scenario.trace);
    let probes = scenario.trace.events.iter().filter_map(probe);
    filters.chain(probes).chain(hooks(scenario)).collect()
}

fn filters(trace: &TraceSetup) -> impl Iterator<Item = Asked<'_>> {
    const TRACED: &[&str] = &["DYNAMIC_FTRACE"];
    const GRAPH: &[&str] = &["DYNAMIC_FTRACE", "FUNCTION_GRAPH_TRACER"];
    let files = [
        ("the filter `functions`", &trace.functions, TRACED),
        ("the filter `notrace`", &trace.notrace, TRACED),
        ("the filter `graph_functions`", &trace.graph_functions, GRAPH),
    ];
    files.into_iter().flat_map(|(what, lines, families)| {
        let plain = lines.iter().map(|line| line.trim()).filter(|line| is_function(line));
        plain.map(move |name| Asked { what, want: Want::Ftrace, name, families })
    })
}

fn probe(event: &EventSpec) -> Option<Asked<'_>> {
    let probe = event.probe()?;
    let name = probe.target.split('+').next()?;
    let (what, want) = match probe.kind {
        ProbeKind::Kprobe => ("the kprobe", Want::Kprobe),
        ProbeKind::Kretprobe => ("the kretprobe", Want::Kprobe),
        ProbeKind::Fprobe => ("the fprobe", Want::Ftrace),
        ProbeKind::Fexit => ("the fexit probe", Want::Ftrace),
        // Of programs, and of events.
        ProbeKind::Uprobe | ProbeKind::Uretprobe | ProbeKind::Eprobe => return None,
    };
    is_function(name).then_some(Asked { what, want, name, families: &[] })
}

/// Functions of hooks that must succeed.
fn hooks(scenario: &Scenario) -> impl Iterator<Item = Asked<'_>> {
    let commands = scenario.steps.iter().filter_map(|step| match &step.value {
        Step::Hook(step) if step.errno.is_none() => Some(&step.hook),
        _ => None,
    });
    let places = commands.flat_map(|command| command.places()).filter(|place| is_function(place));
    places.map(|name| Asked { what: "the hook", want: Want::Ftrace, name, families: &[] })
}

/// Whether this is one function of the kernel: no glob, no address, no module's, no command.
fn is_function(text: &str) -> bool {
    let begins = |c: char| c == '_' || c.is_ascii_alphabetic();
    let good = |c: char| c == '_' || c == '.' || c == '$' || c.is_ascii_alphanumeric();
    text.starts_with(begins) && text.chars().all(good)
}

/// Whether a function that the kernel itself has not may be in a module all the same. A step's hook
/// finds what was loaded before it; what is armed before the first step finds the lab's own module.
pub(super) fn of_module(asked: &Asked<'_>, scenario: &Scenario) -> bool {
    let mut modules = scenario.modules().into_iter();
    match asked.what {
        "the hook" => modules.any(|wanted| !is_hook_module(&wanted)) || asked.name.starts_with(HOOK_MODULE),
        _ => modules.any(|wanted| is_hook_module(&wanted)),
    }
}

fn is_hook_module(wanted: &Wanted) -> bool {
    matches!(wanted, Wanted::Named(name) if name == HOOK_MODULE)
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
            let found: Vec<_> = of(&scenario).iter().map(|asked| (asked.what, asked.name)).collect();
            assert_eq!(found, expect, "{yaml}");
        };
        check(
            "trace: { functions: [vfs_read, 'vfs_*', 'x:mod:y', '17', 'vfs_write:traceoff'], notrace: [a], \
             graph_functions: [b.isra.0] }",
            &[
                ("the filter `functions`", "vfs_read"),
                ("the filter `notrace`", "a"),
                ("the filter `graph_functions`", "b.isra.0"),
            ],
        );
        check(
            "trace: { events: [ { kprobe: vfs_read+8, name: a }, { kprobe: m:f, name: b }, \
             { kprobe: '0xffff800080010000', name: c }, { kretprobe: vfs_write, name: d }, \
             { function: 'vfs_open(ptr path)' }, { event: 'sched:sched_switch' } ] }",
            &[("the kprobe", "vfs_read"), ("the kretprobe", "vfs_write"), ("the kprobe", "vfs_open")],
        );
        check(
            "steps: [ { hook: '+f symbol=vfs_read,vfs_*,@vfs_write+4' }, { hook: 'f filter +vfs_open' }, \
             { hook: 'f notrace -vfs_close' }, { hook: 'f filter gone', errno: EINVAL }, { hook: '-f' }, \
             { write: kprobe_events, text: 'p:x tracing_mark_write' } ]",
            &[("the hook", "vfs_read"), ("the hook", "vfs_open"), ("the hook", "vfs_close")],
        );
    }
}
