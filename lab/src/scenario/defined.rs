//! Whether what an expectation says of an event makes sense: something defines it, and it has such
//! fields.

use super::{
    EventSpec, Step, boot,
    event_ref::EventRef,
    locate::At,
    nearest::unknown,
    semantic::{Checked, Scope, below, problem},
};
use crate::verdict::Condition;

/// ftrace's own entries, which no scenario has to define.
const FTRACE_EVENTS: [&str; 16] = [
    "function",
    "funcgraph_entry",
    "funcgraph_exit",
    "func_repeats",
    "context_switch",
    "wakeup",
    "kernel_stack",
    "user_stack",
    "print",
    "bprint",
    "bputs",
    "raw_data",
    "branch",
    "hwlat",
    "osnoise",
    "timerlat",
];

/// What every event has: the lab's names and the kernel's.
pub(crate) const COMMON_FIELDS: [&str; 12] = [
    "pid",
    "cpu",
    "comm",
    "time",
    "event",
    "group",
    "common_pid",
    "common_comm",
    "common_cpu",
    "common_type",
    "common_flags",
    "common_preempt_count",
];

/// Fields of `function`; the last is there on kernels that record arguments.
const FUNCTION_FIELDS: [&str; 3] = ["ip", "parent_ip", "args"];

/// An event an expectation uses, with what it looks at there.
pub(super) struct Use<'a> {
    pub(super) event: &'a EventRef,
    pub(super) condition: Option<&'a Condition>,
    pub(super) path: Vec<At>,
    /// Names bound by earlier events.
    pub(super) bound: &'a [String],
}

impl Scope<'_> {
    pub(super) fn check_use(&self, used: &Use<'_>) -> Checked {
        self.check_event(used.event, &below(&used.path, At::Key("event")))?;
        let Some(condition) = used.condition else { return Ok(()) };
        let path = below(&used.path, At::Key("where"));
        for field in condition.fields() {
            self.check_field(used.event, field, &path)?;
        }
        for name in condition.bound() {
            if !used.bound.iter().any(|bound| bound == name) {
                let bound: Vec<&str> = used.bound.iter().map(String::as_str).collect();
                return problem(&path, unknown("bound value", name, &bound));
            }
        }
        Ok(())
    }

    /// Whether something defines the event: `trace`, ftrace itself, or, for `SYSTEM:NAME`, the kernel.
    pub(super) fn check_event(&self, event: &EventRef, path: &[At]) -> Checked {
        let events = &self.document.trace.events;
        if let Some(instance) = &event.instance {
            let known: Vec<_> = events.iter().filter_map(EventSpec::instance).collect();
            if !known.contains(&instance.as_str()) {
                return problem(path, unknown("tracing instance", instance, &known));
            }
        }
        if let Some(group) = &event.group {
            // Whichever instance records it: that another one does not is worth an expectation.
            let in_group = || events.iter().filter(|spec| spec.group() == group);
            if !in_group().any(EventSpec::is_defined)
                || in_group().any(|spec| spec.name() == event.name)
                || self.defined_elsewhere(&event.name)
            {
                return Ok(());
            }
            let names: Vec<_> =
                events.iter().map(|spec| format!("{}:{}", spec.group(), spec.name())).collect();
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            return problem(path, unknown("event", &event.to_string(), &names));
        }
        let events: Vec<_> =
            events.iter().filter(|spec| spec.instance() == event.instance.as_deref()).collect();
        let named: Vec<_> = events.iter().filter(|spec| spec.name() == event.name).collect();
        match named.len() {
            1 => Ok(()),
            0 if FTRACE_EVENTS.contains(&event.name.as_str()) || self.defined_elsewhere(&event.name) => {
                Ok(())
            }
            0 => {
                let names: Vec<_> = events.iter().map(|spec| spec.name()).collect();
                let hint =
                    if names.is_empty() { "a SYSTEM:NAME, or an event that `trace` defines" } else { "" };
                let message = unknown("event", &event.name, &names);
                problem(path, if hint.is_empty() { message } else { message.replace("none", hint) })
            }
            _ => {
                let groups: Vec<_> =
                    named.iter().map(|spec| format!("`{}:{}`", spec.group(), spec.name())).collect();
                problem(
                    path,
                    format!("ambiguous event `{}`, expected one of {}", event.name, groups.join(", ")),
                )
            }
        }
    }

    /// Whether what the boot is given or what a step writes defines this event, as far as its text tells.
    fn defined_elsewhere(&self, name: &str) -> bool {
        boot::mentions(&self.document.cmdline, self.document.bootconfig.as_ref(), name)
            || self.steps().any(|step| match step {
                Step::Write(write) if write.write.ends_with("_events") => {
                    write.text.lines().any(|line| line.split([':', '/', ' ', ';']).any(|word| word == name))
                }
                _ => false,
            })
    }

    /// Whether the event has the field, where its fields are known.
    pub(super) fn check_field(&self, event: &EventRef, field: &str, path: &[At]) -> Checked {
        // Those of an instance are defined by another item, maybe.
        let same = |spec: &&EventSpec| {
            spec.name() == event.name && event.group.as_deref().is_none_or(|group| group == spec.group())
        };
        let spec = self.document.trace.events.iter().filter(same).max_by_key(|spec| spec.is_defined());
        let own = match spec {
            Some(spec) => spec.fields(),
            None if event.name == "function" => Some(FUNCTION_FIELDS.to_vec()),
            None => None,
        };
        let Some(own) = own else { return Ok(()) };
        let known: Vec<&str> = own.into_iter().chain(COMMON_FIELDS).collect();
        if known.contains(&field) {
            return Ok(());
        }
        problem(path, unknown(&format!("field of `{event}`:"), field, &known))
    }
}
