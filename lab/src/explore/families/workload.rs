//! What the workload causes: each call in order, what its probes, hooks and tracers do, and what is recorded.

use super::{
    Family,
    commands::Command,
    functions::Tracer,
    hooks::Way,
    livepatches,
    triggers::{Action, Spec},
};
use crate::explore::{
    draw::Draw,
    filter::Filter,
    names::{Event, FUNCTIONS, Function, Place, WORKLOAD, WRITTEN},
    probe::Kind,
    state::{Errno, Line, Model, Tracing, User},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Runs the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) struct Workload;

impl Family for Workload {
    const WEIGHT: usize = 4;
    const ALWAYS: bool = true;

    fn draw(_: &mut Draw<'_>) -> Workload {
        Workload
    }

    fn knows(&self, model: &Model) -> bool {
        model.knows_order() && FUNCTIONS.iter().all(|function| model.knows_return(*function))
    }

    fn apply(&self, model: &mut Model) -> Result<(), Errno> {
        // Another process.
        let triggers = model.files.values_mut().flat_map(|file| &mut file.triggers);
        triggers.for_each(|trigger| *trigger.seen = 0);
        model.enter(Function::Main, 0);
        model.enter(Function::Open, 0);
        model.moment();
        model.event_everywhere(Event::Syscall, 0);
        model.leave(Function::Open);
        for value in WRITTEN {
            model.call(Function::Write, value);
        }
        model.call(Function::Read, 0);
        model.leave(Function::Main);
        Ok(())
    }

    fn step(&self, model: &Model) -> String {
        let read: u64 = if model.is_livepatched(Function::Read) {
            livepatches::VALUE
        } else if model.acts(Way::Return, Function::Read) {
            // Nothing is read over what was written.
            WRITTEN[2]
        } else {
            WRITTEN.iter().sum()
        };
        format!("workload: {WORKLOAD}, stdout: {{ ends_with: read {read} }}")
    }

    fn look(model: &Model) -> Vec<String> {
        let mut steps = Vec::new();
        let mut probed = model.lines.iter().filter(|line| line.probe.kind == Kind::Tprobe);
        let is_free = model.functions().all(|function| model.ops(function) == (0, false))
            && !probed.any(|line| model.is_armed(line.event));
        if is_free {
            steps.push("read: enabled_functions, text: { equal: \"\" }".to_owned());
        }
        for function in model.functions().filter(|_| !is_free) {
            let symbol = function.symbol();
            steps.push(match model.ops(function) {
                (0, false) => format!("enabled_functions: {symbol}, absent: true"),
                (count, false) => format!("enabled_functions: {symbol}, count: {count}"),
                (count, true) => {
                    format!("enabled_functions: {symbol}, count: {{ at_least: {} }}", count.max(1))
                }
            });
        }
        // All records, also of modules: calls, NOPs, and the literals of call_ops.
        let is = if is_free { ", is: disabled" } else { "" };
        steps.push(format!("text: {{ ftrace_site: \"*\" }}{is}"));
        steps
    }
}

impl Model {
    /// Returns the functions of the kernel and of its module.
    pub(super) fn functions(&self) -> impl Iterator<Item = Function> {
        FUNCTIONS.into_iter().chain(self.keys.is_loaded().then_some(Function::Show))
    }

    /// Returns whether it is known what comes first: where fprobes and the graph tracer come in between ftrace_ops and
    /// each other depends on the kernel.
    pub(super) fn knows_order(&self) -> bool {
        let acts = |file: &Spec| !matches!(file.action, Action::Histogram | Action::Stack);
        let mut triggers = self.files.values().flat_map(|file| &file.triggers);
        let is_ordered = !self.commands.is_empty() || triggers.any(|trigger| acts(&trigger.spec));
        !(is_ordered && (self.has_graph() || self.lines.iter().any(|line| line.probe.kind.is_fprobe())))
    }

    /// Returns whether it is known where a function returns to. One that a hook makes return at once returns to its
    /// caller if the hook is called before what replaces the return address. Without DYNAMIC_FTRACE_WITH_ARGS, a graph
    /// tracer takes a call that a hook redirects for one of the function before the wrapper.
    pub(super) fn knows_return(&self, function: Function) -> bool {
        let is_graphed = |at: &Tracing| at.tracer == Tracer::Graph && at.filter.contains(&function);
        let at_return = |line: &Line| {
            (line.probe.kind, line.probe.function) == (Kind::Fexit, function) && self.is_armed(line.event)
        };
        let returns = self.acts(Way::Return, function);
        let misses = self.facts.lacks_args && self.acts(Way::Redirect, function);
        !(returns && self.lines.iter().any(at_return)
            || (returns || misses) && self.tracing.values().any(is_graphed))
    }

    /// Returns whether the kernel has a function.
    pub(super) fn has(&self, function: Function) -> bool {
        function != Function::Show || self.keys.is_loaded()
    }

    /// Returns the number of ftrace_ops that a function has, and whether there may be more: fprobes and graph tracers
    /// share some.
    fn ops(&self, function: Function) -> (u64, bool) {
        if self.ftrace_off {
            return (0, false);
        }
        let traces = |at: &Tracing, tracer| at.tracer == tracer && at.filter.contains(&function);
        let hooks = self.hooks.values().filter(|hook| hook.registered && hook.functions.contains(&function));
        let users = self.order.iter().filter(|user| match user {
            User::Tracer(place) => traces(&self.tracing[place], Tracer::Function),
            User::Commands(place, command) => self.commands.contains_key(&(*place, *command, function)),
            User::Uprobes(_) => false,
        });
        let probed = |line: &Line| {
            line.probe.kind.is_fprobe()
                && line.probe.function == function
                && !line.is_lost
                && self.is_armed(line.event)
        };
        let livepatches = usize::from(self.is_livepatched(function));
        let shares =
            self.lines.iter().any(probed) || self.tracing.values().any(|at| traces(at, Tracer::Graph));
        ((hooks.count() + users.count() + livepatches) as u64, shares)
    }

    /// What is recorded from now on comes after all that was.
    fn moment(&mut self) {
        self.moments.push(BTreeSet::new());
    }

    /// A call of a function of the kernel, with the wrapper's if it is redirected.
    pub(super) fn call(&mut self, function: Function, written: u64) {
        self.hit_hooks(function);
        self.enter(function, written);
        if self.acts(Way::Redirect, function) {
            *self.is_wrapped = true;
            self.enter(function, written);
            self.leave(function);
            *self.is_wrapped = false;
        }
        self.leave(function);
    }

    /// The entry: kprobes, ftrace_ops, fprobes, and probes of tracepoints, each the last one first.
    pub(super) fn enter(&mut self, function: Function, written: u64) {
        self.moment();
        if function.is_user() {
            return self.breakpoint(function, Kind::Uprobe);
        }
        self.hit_all(Kind::Kprobe, function, written);
        if self.ftrace_off {
            return;
        }
        for user in self.order.clone() {
            match user {
                User::Tracer(place) => self.trace(place, function),
                User::Commands(place, command) => self.command(place, command, function),
                User::Uprobes(_) => {}
            }
        }
        self.hit_all(Kind::Fprobe, function, written);
        self.hit_all(Kind::Tprobe, function, written);
    }

    /// The return: fprobes, the last one first, and kretprobes, the first one first.
    pub(super) fn leave(&mut self, function: Function) {
        self.moment();
        if function.is_user() {
            return self.breakpoint(function, Kind::Uretprobe);
        }
        self.hit_all(Kind::Fexit, function, 0);
        self.hit_all(Kind::Kretprobe, function, 0);
    }

    /// The uprobes of a function, the last registered one first, also of an event.
    fn breakpoint(&mut self, function: Function, kind: Kind) {
        for user in self.order.clone() {
            for index in (0..self.lines.len()).rev() {
                if user == User::Uprobes(self.lines[index].event) {
                    self.hit(index, kind, function, 0);
                }
            }
        }
    }

    /// Hits the probes of this kind at this function: of kretprobes the first one first, of others the last one. Those of
    /// a tracepoint are fprobes of a function that it calls.
    fn hit_all(&mut self, kind: Kind, function: Function, written: u64) {
        let mut indices = Vec::from_iter(0..self.lines.len());
        if kind != Kind::Kretprobe {
            indices.reverse();
        }
        for index in indices {
            self.hit(index, kind, function, written);
        }
    }

    /// Hits a probe if it is one of this kind at this function.
    fn hit(&mut self, index: usize, kind: Kind, function: Function, written: u64) {
        let Line { event, probe, is_lost, .. } = self.lines[index];
        let off = kind.is_kprobe() && self.disarmed || kind.is_fprobe() && self.ftrace_off;
        if off || is_lost || (probe.kind, probe.function) != (kind, function) || !self.is_armed(event) {
            return;
        }
        *self.lines[index].hits += 1;
        self.event_everywhere(event, probe.value(written, &self.facts));
    }

    /// What an event does at all places.
    fn event_everywhere(&mut self, event: Event, value: u64) {
        self.event_within(event, value, false);
    }

    /// The same, within another event, of which a copy may be made.
    fn event_within(&mut self, event: Event, value: u64, has_copy: bool) {
        let places: Vec<Place> = self.tracing.keys().copied().collect();
        places.into_iter().for_each(|place| self.event(event, place, value, has_copy));
    }

    /// What an event does at one place: `trace_trigger_soft_disabled()` and `trace_event_buffer_commit()`.
    fn event(&mut self, event: Event, place: Place, value: u64, has_copy: bool) {
        let Some(file) = self.files.get(&(event, place)).filter(|file| file.enabled).cloned() else { return };
        let ignores = self.tracing[&place].ignores;
        let conditional = file.triggers.iter().any(|trigger| trigger.spec.needs_record());
        if !conditional {
            // Without a record, before anything else.
            for index in 0..file.triggers.len() {
                self.trigger(event, place, index, (value, false));
            }
            if file.soft_disabled || ignores {
                return;
            }
        }
        if ignores && !self.facts.known.triggers_ignore_pids {
            return;
        }
        let at = &self.tracing[&place];
        let file = &self.files[&(event, place)];
        let filter = file.filter.unwrap_or(Filter::Clear);
        // What may not be recorded is copied when that is known, but only one at a time.
        let is_copied = !has_copy && (file.soft_disabled || filter != Filter::Clear);
        let (spare, records) = (at.buffer.spare, at.buffer.records);
        if !conditional && !is_copied && !records {
            return;
        }
        let mut after = Vec::new();
        if conditional {
            for (index, trigger) in file.triggers.clone().iter().enumerate() {
                match trigger.spec {
                    spec if !spec.filter.passes(value) => {}
                    spec if spec.is_after() => after.push(index),
                    _ => self.trigger(event, place, index, (value, has_copy || is_copied)),
                }
            }
        }
        let is_discarded = self.files[&(event, place)].soft_disabled || !filter.passes(value) || ignores;
        if !is_discarded && (is_copied || records) {
            self.record(event, place, value, (spare, !is_copied));
        }
        for index in after {
            self.trigger(event, place, index, (value, false));
        }
    }

    /// Adds a record to the buffer that was the current one, unless it stopped recording since.
    fn record(&mut self, event: Event, place: Place, value: u64, (spare, is_reserved): (bool, bool)) {
        let has_value = self.has_value(event);
        let Some(at) = self.tracing.get_mut(&place) else { return };
        let stacks = at.stacks;
        let buffers = [Some(&mut at.buffer), at.snapshot.as_mut()];
        let Some(buffer) = buffers.into_iter().flatten().find(|buffer| buffer.spare == spare) else { return };
        let is_recorded = is_reserved || buffer.records;
        *buffer.entries += u64::from(is_recorded) + u64::from(stacks && buffer.records);
        if is_recorded && place.is_none() {
            self.recorded.entry(event).or_default().push(has_value.then_some(value));
            self.moments.last_mut().into_iter().for_each(|moment| _ = moment.insert(event));
        }
    }

    /// Records a call, and its return if that is recorded: nothing in between turns that off.
    fn trace(&mut self, place: Place, function: Function) {
        let at = &self.tracing[&place];
        let tracer = at.tracer;
        if !at.filter.contains(&function) || at.ignores_calls || !self.is_recorded(tracer, function) {
            return;
        }
        let Some(at) = self.tracing.get_mut(&place).filter(|at| at.buffer.records) else { return };
        *at.buffer.entries += tracer.events().len() as u64;
        if place.is_none() {
            self.traced.entry((tracer, function)).or_default()[usize::from(*self.is_wrapped)] += 1;
        }
    }

    /// `value` is that of the event, of which there may be a copy.
    fn trigger(&mut self, event: Event, place: Place, index: usize, (value, has_copy): (u64, bool)) {
        let Some(file) = self.files.get_mut(&(event, place)) else { return };
        let Some(trigger) = file.triggers.get_mut(index) else { return };
        let Spec { action, target, count, .. } = trigger.spec;
        if trigger.spec.is_histogram() {
            *trigger.hits += 1;
            if action == Action::Trace && *trigger.seen != value {
                *trigger.seen = value;
                self.event_within(target, value, has_copy);
            }
            return;
        }
        if action == Action::Probe {
            let value = self.probes(target).next().map_or(0, |line| line.probe.value(0, &self.facts));
            return self.event(target, place, value, has_copy);
        }
        if let Some(left) = count {
            if left == 0 || !self.changes(action, target, place) {
                return;
            }
            let file = self.files.get_mut(&(event, place));
            let trigger = file.and_then(|file| file.triggers.get_mut(index));
            trigger.into_iter().for_each(|trigger| trigger.spec.count = Some(left - 1));
        }
        self.act(action, target, place);
    }

    fn command(&mut self, place: Place, command: Command, function: Function) {
        let Some(&(target, left)) = self.commands.get(&(place, command, function)) else { return };
        let target = target.unwrap_or(Event::Syscall);
        if command.is_counted {
            let top = if self.facts.known.stack_command { None } else { place };
            let is_off = command.action == Action::Stack && !self.tracing[&top].buffer.records;
            if left == 0 || is_off || !self.changes(command.action, target, place) {
                return;
            }
            if let Some((_, count)) = self.commands.get_mut(&(place, command, function)) {
                *count = left - 1;
            }
        }
        self.act(command.action, target, place);
    }

    /// Returns whether an action changes something. Otherwise, it does not count.
    fn changes(&self, action: Action, target: Event, place: Place) -> bool {
        let records = self.tracing[&place].buffer.records;
        let is_off = || self.files.get(&(target, place)).is_some_and(|file| file.soft_disabled);
        match action {
            Action::On => !records,
            Action::Off => records,
            Action::Enable => is_off(),
            Action::Disable => !is_off(),
            Action::Snapshot | Action::Stack | Action::Histogram | Action::Trace | Action::Probe => true,
        }
    }

    fn act(&mut self, action: Action, target: Event, place: Place) {
        let Some(at) = self.tracing.get_mut(&place) else { return };
        match action {
            Action::On => at.buffer.records = true,
            Action::Off => at.buffer.records = false,
            Action::Snapshot if at.snapshot.is_some() => at.swap(),
            // It was freed since: the kernel says so in two records, and stops.
            Action::Snapshot => {
                let each = 1 + u64::from(at.stacks);
                *at.buffer.entries += if at.buffer.records { 2 * each } else { 0 };
                at.buffer.records = false;
            }
            Action::Stack => {
                *at.buffer.entries += u64::from(at.buffer.records);
                if at.buffer.records && place.is_none() {
                    *self.stacked += 1;
                }
            }
            Action::Enable | Action::Disable => {
                let file = self.files.get_mut(&(target, place));
                file.into_iter().for_each(|file| file.soft_disabled = action == Action::Disable);
            }
            Action::Histogram | Action::Trace | Action::Probe => {}
        }
    }
}
