//! Checks of the events that expectations name: something must define the event, and it must have the
//! fields.

use super::{Checked, Scope, below, problem};
use crate::{
    scenario::{
        Condition, EventSpec, Step, read::locate::PathSegment, values::event_ref::EventRef, whole::start,
    },
    words::unknown,
};

/// Entries of ftrace itself, which a scenario need not define.
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

/// Fields of every event: the lab's names and the kernel's.
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

/// Fields of `function`; kernels that record arguments have the last one.
const FUNCTION_FIELDS: [&str; 3] = ["ip", "parent_ip", "args"];

/// An event that an expectation uses, with its condition.
pub(in crate::scenario) struct Use<'a> {
    pub(in crate::scenario) event: &'a EventRef,
    pub(in crate::scenario) condition: Option<&'a Condition>,
    pub(in crate::scenario) path: Vec<PathSegment>,
    /// Names bound by earlier events.
    pub(in crate::scenario) bound: &'a [String],
}

impl Scope<'_> {
    pub(in crate::scenario) fn check_use(&self, used: &Use<'_>) -> Checked {
        self.check_event(used.event, &below(&used.path, PathSegment::Key("event")))?;
        let Some(condition) = used.condition else { return Ok(()) };
        let path = below(&used.path, PathSegment::Key("where"));
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

    /// Checks that something defines the event: `trace`, ftrace itself, or, for `SYSTEM:NAME`, the
    /// kernel.
    pub(in crate::scenario) fn check_event(&self, event: &EventRef, path: &[PathSegment]) -> Checked {
        let events = &self.document.trace.events;
        if let Some(instance) = &event.instance {
            let known: Vec<_> = events.iter().filter_map(EventSpec::instance).collect();
            if !known.contains(&instance.as_str()) {
                return problem(path, unknown("tracing instance", instance, &known));
            }
        }
        if let Some(group) = &event.group {
            // In any instance: an expectation may check that an instance does not record it.
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

    /// Returns whether the boot's settings or a step that writes seem to define this event.
    fn defined_elsewhere(&self, name: &str) -> bool {
        start::mentions(&self.document.cmdline, self.document.bootconfig.as_ref(), name)
            || self.steps().any(|step| match step {
                Step::Write(write) if write.write.ends_with("_events") => {
                    write.text.lines().any(|line| line.split([':', '/', ' ', ';']).any(|word| word == name))
                }
                _ => false,
            })
    }

    /// Checks that the event has the field, if its fields are known.
    pub(in crate::scenario) fn check_field(
        &self,
        event: &EventRef,
        field: &str,
        path: &[PathSegment],
    ) -> Checked {
        // The event of an instance may be defined by another item.
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
