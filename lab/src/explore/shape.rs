//! What there is in a state: how to remove it, and what distinguishes it from other states.

use super::{
    operation::{Event, Filter, Function, HookChange, List, Operation, Place, Probe, Tracer},
    state::{EventFile, Model, Tracing},
};
use std::collections::BTreeSet;

impl Model {
    /// Returns the operations that remove all that there is, in an order that the kernel accepts.
    pub(super) fn tear_down(&self) -> Vec<Operation> {
        let mut all = Vec::new();
        if self.disarmed {
            all.push(Operation::ArmKprobes(true));
        }
        if self.ftrace_off {
            all.push(Operation::Ftrace(true));
        }
        for (place, at) in &self.tracing {
            if at.traces_functions {
                all.push(Operation::Tracer(*place, Tracer::Nop));
            }
            all.extend(at.filter.iter().map(|function| Operation::FunctionFilter(*place, *function, false)));
            if at.ignores {
                all.push(Operation::PidFilter(*place, false));
            }
        }
        all.extend(self.hooks.keys().map(|name| Operation::Hook(*name, HookChange::Remove, Vec::new())));
        for ((event, place), file) in &self.files {
            if file.enabled {
                all.push(Operation::Enable(*place, *event, false));
            }
            if file.histogram.is_some() {
                all.push(Operation::Histogram(*place, *event, false));
            }
        }
        all.extend(self.instances.keys().map(|name| Operation::RemoveInstance(*name)));
        if !self.lines.is_empty() {
            all.push(Operation::Truncate(List::All));
        }
        all
    }

    /// Returns what distinguishes states: everything but names and counts.
    pub(super) fn shape(&self) -> Shape {
        let file = |((event, place), file): (&(Event, Place), &EventFile)| {
            (event.number, place.is_some(), file.enabled, file.filter, file.histogram.is_some())
        };
        Shape {
            lines: self.lines.iter().map(|line| (line.event.number, line.probe)).collect(),
            files: self.files.iter().map(file).collect(),
            instances: self.instances.values().map(|instance| instance.records).collect(),
            hooks: self
                .hooks
                .values()
                .map(|hook| (hook.ipmodify, hook.registered, hook.functions.clone()))
                .collect(),
            tracing: self.tracing.values().filter(|at| **at != Tracing::default()).cloned().collect(),
            off: (self.disarmed, self.ftrace_off),
        }
    }
}

/// See [`Model::shape`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    lines: Vec<(u8, Probe)>,
    files: Vec<(u8, bool, bool, Option<Filter>, bool)>,
    instances: Vec<bool>,
    hooks: Vec<(bool, bool, BTreeSet<Function>)>,
    tracing: Vec<Tracing>,
    off: (bool, bool),
}
