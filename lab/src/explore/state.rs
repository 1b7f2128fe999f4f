//! The state of tracing: what is defined, enabled and registered, and what was counted.

use super::operation::{Event, Filter, Function, Named, Place, Probe};
use std::collections::{BTreeMap, BTreeSet};

/// An event's state at one place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct EventFile {
    /// Whether it is enabled.
    pub(super) enabled: bool,
    /// Its filter; `None` after one that was not accepted, which is shown and filters nothing.
    pub(super) filter: Option<Filter>,
    /// The hits of its histogram, if it has one.
    pub(super) histogram: Option<u64>,
    /// Whether the event was ever enabled here. If so, removing it clears the buffer.
    pub(super) used: bool,
}

impl EventFile {
    pub(super) fn new() -> EventFile {
        EventFile { filter: Some(Filter::Clear), ..EventFile::default() }
    }

    pub(super) fn is_busy(&self) -> bool {
        self.enabled || self.histogram.is_some()
    }
}

/// A tracing instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Instance {
    /// Whether its buffer records.
    pub(super) records: bool,
    /// The number of events in its buffer.
    pub(super) entries: u64,
}

/// The function tracer of an instance or of the top level, and what else holds for all events there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Tracing {
    /// `set_ftrace_filter`.
    pub(super) filter: BTreeSet<Function>,
    /// Whether the tracer is `function`.
    pub(super) traces_functions: bool,
    /// Whether events of the workload are ignored.
    pub(super) ignores: bool,
}

impl Tracing {
    pub(super) fn traces(&self, function: Function) -> bool {
        self.traces_functions && self.filter.contains(&function)
    }
}

/// A hook.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hook {
    /// Whether it may change the instruction pointer.
    pub(super) ipmodify: bool,
    /// Whether it is registered.
    pub(super) registered: bool,
    /// Its filter.
    pub(super) functions: BTreeSet<Function>,
    /// The number of its hits.
    pub(super) hits: u64,
}

/// A line of `dynamic_events`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Line {
    /// Its event.
    pub(super) event: Event,
    /// The probe.
    pub(super) probe: Probe,
    /// The number of its hits.
    pub(super) hits: u64,
}

/// Known differences between a kernel and what it should do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Known {
    /// EINVAL instead of the error of registering an fprobe event (`bugs/fprobe-exists`).
    pub(super) fprobe_errno: bool,
    /// A probe that is added to an enabled fprobe event is not registered (`bugs/fprobe-append`).
    pub(super) fprobe_append: bool,
    /// Triggers see the events that a pid filter excludes: before 5.16, which reserves no space for those.
    pub(super) triggers_ignore_pids: bool,
}

/// The state of tracing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Model {
    /// All probes, in the order in which they were defined.
    pub(super) lines: Vec<Line>,
    /// The events, at each place.
    pub(super) files: BTreeMap<(Event, Place), EventFile>,
    /// The instances.
    pub(super) instances: BTreeMap<Named, Instance>,
    /// The hooks.
    pub(super) hooks: BTreeMap<Named, Hook>,
    /// What else is set, at each place where something is.
    pub(super) tracing: BTreeMap<Place, Tracing>,
    /// Whether all kprobes are disarmed.
    pub(super) disarmed: bool,
    /// Whether ftrace is off.
    pub(super) ftrace_off: bool,
    /// What the kernel is known to do otherwise.
    pub(super) known: Known,
    /// The events of the whole trace of the top level, by name.
    pub(super) recorded: BTreeMap<Event, u64>,
    /// The calls in the whole trace of the top level.
    pub(super) traced: BTreeMap<Function, u64>,
}
