//! Operations → the text of a scenario that requires what the model predicts.

use super::{
    operation::{Event, FUNCTIONS, Filter, Function, HookChange, Named, Operation, Place, WORKLOAD},
    state::{EventFile, Model},
};
use std::fmt::Write;

/// A scenario, and the operation of each of its steps.
#[derive(Clone, Debug)]
pub(super) struct Script {
    /// The text of the scenario.
    pub(super) text: String,
    /// For each step the index of its operation.
    pub(super) origins: Vec<usize>,
}

/// Writes a scenario of these operations.
pub(super) fn script(summary: &str, mut model: Model, operations: &[Operation]) -> Script {
    let mut text = format!(
        "summary: {summary:?}\nrequires:\n  kernel: \">=5.10\"\n  config: [KPROBE_EVENTS, HIST_TRIGGERS, \
         DYNAMIC_FTRACE, FUNCTION_TRACER, EVENTFD, PROC_KCORE]\ntimeout: 120s\nsteps:\n"
    );
    let mut origins = Vec::new();
    for (index, operation) in operations.iter().enumerate() {
        let errno = model.apply(operation).err();
        let steps = match operation {
            Operation::Look => look(&model),
            operation => vec![step(operation, errno)],
        };
        for step in steps {
            let _ = writeln!(text, "  - {{ {step} }}");
            origins.push(index);
        }
    }
    let mut expectations = String::new();
    for (event, count) in &model.recorded {
        let name = event.to_string().replace('/', ":");
        let _ = writeln!(expectations, "  - {{ count: {{ event: {name:?}, is: {count} }} }}");
    }
    let traces = operations.iter().any(|operation| matches!(operation, Operation::Tracer(None, _)));
    for function in FUNCTIONS.iter().filter(|_| traces) {
        let count = model.traced.get(function).copied().unwrap_or_default();
        let symbol = function.symbol();
        let _ = writeln!(
            expectations,
            "  - {{ count: {{ event: function, where: 'sym(ip) == \"{symbol}\"', is: {count} }} }}"
        );
    }
    if !expectations.is_empty() {
        text += "expect:\n";
        text += &expectations;
    }
    Script { text, origins }
}

fn write(file: &str, text: &str, append: bool) -> String {
    let append = if append { ", append: true" } else { "" };
    format!("write: {file:?}, text: {text:?}{append}")
}

fn step(operation: &Operation, errno: Option<&str>) -> String {
    let switch = |on: &bool| if *on { "1" } else { "0" };
    let step = match operation {
        Operation::Define(event, probe) => {
            let letter = match (probe.kind.is_kprobe(), probe.kind.is_return()) {
                (true, false) => 'p',
                (true, true) => 'r',
                (false, _) => 'f',
            };
            write("dynamic_events", &format!("{letter}:{event} {}", probe.place()), true)
        }
        Operation::Remove(list, event) => write(list.file(), &format!("-:{event}"), true),
        Operation::Truncate(list) => write(list.file(), "", false),
        Operation::Enable(place, event, on) => write(&of_event(*place, *event, "enable"), switch(on), false),
        Operation::EnableGroup(place, sequence, on) => {
            write(&format!("{}events/x{sequence}/enable", directory(*place)), switch(on), false)
        }
        Operation::Filter(place, event, filter) => {
            write(&of_event(*place, *event, "filter"), filter.text(), false)
        }
        Operation::Histogram(place, event, add) => {
            let not = if *add { "" } else { "!" };
            let file = of_event(*place, *event, "trigger");
            write(&file, &format!("{not}hist:keys=common_pid"), true)
        }
        Operation::MakeInstance(name) => format!("mkdir: \"instances/{name}\""),
        Operation::RemoveInstance(name) => {
            format!("sh: \"rmdir /sys/kernel/tracing/instances/{name}\"")
        }
        Operation::Record(name, on) => write(&format!("instances/{name}/tracing_on"), switch(on), false),
        Operation::Clear(name) => write(&format!("instances/{name}/trace"), "", false),
        Operation::Hook(name, change, functions) => hook(*name, *change, functions),
        Operation::RemoveAt(event, function) => {
            write("dynamic_events", &format!("-:{event} {}", function.symbol()), true)
        }
        Operation::FunctionFilter(place, function, add) => {
            let not = if *add { "" } else { "!" };
            let file = format!("{}set_ftrace_filter", directory(*place));
            write(&file, &format!("{not}{}", function.symbol()), true)
        }
        Operation::Tracer(place, tracer) => {
            write(&format!("{}current_tracer", directory(*place)), tracer.name(), false)
        }
        Operation::PidFilter(place, on) => {
            // 1 is the agent.
            write(&format!("{}set_event_pid", directory(*place)), if *on { "1" } else { "" }, false)
        }
        Operation::ArmKprobes(on) => write("/sys/kernel/debug/kprobes/enabled", switch(on), false),
        Operation::Ftrace(on) => write("/proc/sys/kernel/ftrace_enabled", switch(on), false),
        Operation::Work => format!("workload: {WORKLOAD}, stdout: {{ ends_with: read 7 }}"),
        Operation::Look => unreachable!("a look is several steps"),
    };
    match errno {
        Some(errno) => format!("{step}, errno: {errno}"),
        None => step,
    }
}

fn hook(name: Named, change: HookChange, functions: &[Function]) -> String {
    let listed = |sign: &str| {
        let functions = functions.iter().map(|function| format!("{sign}{}", function.symbol()));
        functions.collect::<Vec<_>>().join(",")
    };
    let command = match change {
        HookChange::Add { .. } if functions.is_empty() => format!("+{name} flags=ipmodify"),
        HookChange::Add { ipmodify: false } => format!("+{name} symbol={}", listed("")),
        HookChange::Add { ipmodify: true } => format!("+{name} symbol={} flags=ipmodify", listed("")),
        HookChange::Remove => format!("-{name}"),
        HookChange::Widen => format!("{name} filter {}", listed("+")),
        HookChange::Narrow => format!("{name} filter {}", listed("-")),
        HookChange::Enable => format!("{name} enable"),
        HookChange::Disable => format!("{name} disable"),
    };
    format!("hook: {command:?}")
}

fn directory(place: Place) -> String {
    place.map_or_else(String::new, |instance| format!("instances/{instance}/"))
}

fn of_event(place: Place, event: Event, file: &str) -> String {
    format!("{}events/{event}/{file}", directory(place))
}

/// The steps that compare what the kernel shows with the model.
fn look(model: &Model) -> Vec<String> {
    let mut steps = vec![listing(model), profile(model)];
    for ((event, place), file) in &model.files {
        steps.extend(of_file(*place, *event, file));
    }
    for (name, instance) in &model.instances {
        let entries = format!("entries-in-buffer/entries-written: {0}/{0} ", instance.entries);
        steps.push(format!("read: \"instances/{name}/trace\", text: {{ contains: [{entries:?}] }}"));
        let records = u8::from(instance.records);
        steps.push(format!("read: \"instances/{name}/tracing_on\", text: {{ equal: \"{records}\" }}"));
    }
    for (name, hook) in &model.hooks {
        steps.push(format!("hits: {name}, count: {}", hook.hits));
    }
    for function in FUNCTIONS {
        let symbol = function.symbol();
        steps.push(match model.ops(function) {
            (0, false) => format!("enabled_functions: {symbol}, absent: true"),
            (count, false) => format!("enabled_functions: {symbol}, count: {count}"),
            (count, true) => {
                format!("enabled_functions: {symbol}, count: {{ at_least: {} }}", count.max(1))
            }
        });
        let is = if model.has_brk(function) { "brk 0x4" } else { "original" };
        steps.push(format!("text: {{ at: {symbol} }}, is: {is}"));
    }
    for (place, at) in &model.tracing {
        let tracer = if at.traces_functions { "function" } else { "nop" };
        let file = format!("{}current_tracer", directory(*place));
        steps.push(format!("read: {file:?}, text: {{ equal: {tracer} }}"));
    }
    steps
}

/// `dynamic_events`, line by line.
fn listing(model: &Model) -> String {
    let mut pattern = String::from(r"\A");
    for line in &model.lines {
        // Some kernels print the default maxactive of a return probe.
        let letter = match (line.probe.kind.is_kprobe(), line.probe.kind.is_return()) {
            (true, false) => "p",
            (true, true) => r"r\d*",
            (false, _) => r"f\d*",
        };
        let _ = write!(pattern, "{letter}:{} {}\\n", line.event, regex::escape(&line.probe.place()));
    }
    pattern += r"\z";
    format!("read: dynamic_events, text: {{ matches: {pattern:?} }}")
}

/// `kprobe_profile`: the hits of each probe, of which none was missed.
fn profile(model: &Model) -> String {
    let mut pattern = String::from(r"\A");
    for line in model.lines.iter().filter(|line| line.probe.kind.is_kprobe()) {
        let _ = write!(pattern, r" *e{} +{} +0\n", line.event.number, line.hits);
    }
    pattern += r"\z";
    format!("read: kprobe_profile, text: {{ matches: {pattern:?} }}")
}

fn of_file(place: Place, event: Event, file: &EventFile) -> Vec<String> {
    let path = |name: &str| of_event(place, event, name);
    // A histogram enables the event softly.
    let star = if file.histogram.is_some() { "*" } else { "" };
    let enabled = format!("{}{star}", u8::from(file.enabled));
    let mut steps = vec![format!("read: {:?}, text: {{ equal: {enabled:?} }}", path("enable"))];
    if let Some(filter) = file.filter {
        let text = if filter == Filter::Clear { "none" } else { filter.text() };
        steps.push(format!("read: {:?}, text: {{ equal: {text:?} }}", path("filter")));
    }
    if let Some(hits) = file.histogram {
        let total = format!(r"^    Hits: {hits}$");
        steps.push(format!("read: {:?}, text: {{ matches: {total:?} }}", path("hist")));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        explore::choose::{Chooser, Facts},
        scenario::Scenario,
    };
    use std::path::Path;

    #[test]
    fn every_sequence_is_a_scenario() {
        let mut chooser = Chooser::new(1, Facts { fprobes: true, ..Facts::default() });
        for _ in 0..50 {
            let operations = [chooser.sequence(), chooser.sequence()].concat();
            let script = script("two sequences", Model::default(), &operations);
            let scenario = Scenario::parse(Path::new("explored.yaml"), &script.text);
            let scenario = scenario.unwrap_or_else(|error| panic!("{error}\n{}", script.text));
            assert_eq!(scenario.steps.len(), script.origins.len());
        }
    }
}
