//! What tracing must do: a pure model of the operations.
//!
//! [`Model::apply`] returns the errno that the kernel must return, and keeps what must be there afterwards.

use super::operation::{
    Arguments, Event, FUNCTIONS, Filter, Function, HookChange, Kind, List, Named, Operation, Place, Probe,
    Tracer,
};
use std::collections::{BTreeMap, BTreeSet};

/// The name of an errno.
pub(super) type Errno = &'static str;

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
    used: bool,
}

impl EventFile {
    fn new() -> EventFile {
        EventFile { filter: Some(Filter::Clear), ..EventFile::default() }
    }

    fn is_busy(&self) -> bool {
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
    /// `set_ftrace_filter`.
    pub(super) filter: BTreeSet<Function>,
    /// Whether the tracer is `function`.
    pub(super) traces_functions: bool,
    /// The events of the whole trace of the top level, by name.
    pub(super) recorded: BTreeMap<Event, u64>,
    /// The calls in the whole trace of the top level.
    pub(super) traced: BTreeMap<Function, u64>,
}

impl Model {
    /// Applies an operation. Returns the errno that the kernel must return.
    pub(super) fn apply(&mut self, operation: &Operation) -> Result<(), Errno> {
        match operation {
            Operation::Define(event, probe) => self.define(*event, *probe),
            Operation::Remove(list, event) => self.remove(*list, *event),
            Operation::Truncate(list) => self.truncate(*list),
            Operation::Enable(place, event, on) => self.enable(*place, *event, *on),
            Operation::EnableGroup(place, sequence, on) => self.enable_group(*place, *sequence, *on),
            Operation::Filter(place, event, filter) => self.set_filter(*place, *event, *filter),
            Operation::Histogram(place, event, add) => self.histogram(*place, *event, *add),
            Operation::MakeInstance(name) => self.make_instance(*name),
            Operation::RemoveInstance(name) => self.remove_instance(*name),
            Operation::Record(name, on) => {
                self.instances.get_mut(name).ok_or("ENOENT")?.records = *on;
                Ok(())
            }
            Operation::Clear(name) => {
                self.instances.get_mut(name).ok_or("ENOENT")?.entries = 0;
                Ok(())
            }
            Operation::Hook(name, change, functions) => self.hook(*name, *change, functions),
            Operation::FunctionFilter(function, add) => {
                if *add {
                    self.filter.insert(*function);
                } else {
                    self.filter.remove(function);
                }
                Ok(())
            }
            Operation::Tracer(tracer) => {
                self.traces_functions = *tracer == Tracer::Function;
                Ok(())
            }
            Operation::Work => {
                self.work();
                Ok(())
            }
            Operation::Look => Ok(()),
        }
    }

    /// Returns whether an operation has a meaning that the model knows. An ftrace_ops with an empty filter
    /// traces all functions, for example.
    pub(super) fn knows(&self, operation: &Operation) -> bool {
        match operation {
            Operation::FunctionFilter(function, false) => {
                self.filter.contains(function) && (!self.traces_functions || self.filter.len() > 1)
            }
            Operation::Tracer(Tracer::Function) => !self.filter.is_empty(),
            Operation::Hook(_, HookChange::Add { .. } | HookChange::Widen, functions) => {
                !functions.is_empty()
            }
            Operation::Hook(name, HookChange::Narrow, functions) => {
                let all = |hook: &Hook| functions.iter().all(|function| hook.functions.contains(function));
                functions.len() == 1
                    && self.hooks.get(name).is_none_or(|hook| all(hook) && hook.functions.len() > 1)
            }
            // The agent's mkdir accepts what exists, and the step that removes has no errno.
            Operation::MakeInstance(name) => !self.instances.contains_key(name),
            Operation::RemoveInstance(name) => self.instances.contains_key(name),
            _ => true,
        }
    }

    /// Returns the probes of an event, in order.
    pub(super) fn probes(&self, event: Event) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(move |line| line.event == event)
    }

    /// Returns whether the probes of an event are armed.
    pub(super) fn is_armed(&self, event: Event) -> bool {
        self.files.iter().any(|((name, _), file)| *name == event && file.is_busy())
    }

    /// Returns whether a BRK is at the beginning of a function.
    pub(super) fn has_brk(&self, function: Function) -> bool {
        let here = |line: &&Line| line.probe.kind.is_kprobe() && line.probe.function == function;
        self.lines.iter().filter(here).any(|line| self.is_armed(line.event))
    }

    /// Returns the number of ftrace_ops that a function has, and whether there may be more of fprobes.
    pub(super) fn ops(&self, function: Function) -> (u64, bool) {
        let hooks = self.hooks.values().filter(|hook| hook.registered && hook.functions.contains(&function));
        let traced = self.traces_functions && self.filter.contains(&function);
        let probed = |line: &Line| {
            !line.probe.kind.is_kprobe() && line.probe.function == function && self.is_armed(line.event)
        };
        (hooks.count() as u64 + u64::from(traced), self.lines.iter().any(probed))
    }

    fn define(&mut self, event: Event, probe: Probe) -> Result<(), Errno> {
        let siblings: Vec<Probe> = self.probes(event).map(|line| line.probe).collect();
        let is_new = siblings.is_empty();
        let types = |probe: Probe| (probe.kind, probe.arguments == Arguments::None);
        let differs = siblings.iter().any(|other| types(*other) != types(probe));
        let same = |other: &Probe| other.place() == probe.place();
        if differs || siblings.iter().any(same) {
            return Err("EEXIST");
        }
        self.lines.push(Line { event, probe, hits: 0 });
        if is_new {
            let places = self.instances.keys().copied().map(Some).chain([None]);
            self.files.extend(places.map(|place| ((event, place), EventFile::new())));
            self.recorded.entry(event).or_default();
        }
        Ok(())
    }

    /// Removes probes as the kernel walks its list: those with siblings go even if the event is enabled.
    fn remove(&mut self, list: List, event: Event) -> Result<(), Errno> {
        let wanted = |line: &Line| line.event == event && list.has(line.probe.kind);
        if !self.lines.iter().any(wanted) {
            return Err("ENOENT");
        }
        let is_armed = self.is_armed(event);
        let last = self.lines.iter().rposition(wanted);
        let mut index = 0;
        self.lines.retain(|line| {
            let stays = !wanted(line) || is_armed && Some(index) == last;
            index += 1;
            stays
        });
        if is_armed {
            return Err("EBUSY");
        }
        self.forget(event);
        Ok(())
    }

    fn truncate(&mut self, list: List) -> Result<(), Errno> {
        let listed = |line: &&Line| list.has(line.probe.kind);
        let events: BTreeSet<Event> = self.lines.iter().filter(listed).map(|line| line.event).collect();
        if events.iter().any(|event| self.is_armed(*event)) {
            return Err("EBUSY");
        }
        self.lines.retain(|line| !events.contains(&line.event));
        events.into_iter().for_each(|event| self.forget(event));
        Ok(())
    }

    /// Drops the files of an event that is gone. The buffers that may have its records are cleared.
    fn forget(&mut self, event: Event) {
        for ((name, place), file) in &self.files {
            if let (true, Some(place)) = (*name == event && file.used, place)
                && let Some(instance) = self.instances.get_mut(place)
            {
                instance.entries = 0;
            }
        }
        self.files.retain(|(name, _), _| *name != event);
    }

    fn file(&mut self, place: Place, event: Event) -> Result<&mut EventFile, Errno> {
        self.files.get_mut(&(event, place)).ok_or("ENOENT")
    }

    fn enable(&mut self, place: Place, event: Event, on: bool) -> Result<(), Errno> {
        let file = self.file(place, event)?;
        file.enabled = on;
        file.used |= on;
        Ok(())
    }

    fn enable_group(&mut self, place: Place, sequence: u16, on: bool) -> Result<(), Errno> {
        let here = |event: &Event, at: &Place| event.sequence == sequence && *at == place;
        let files = self.files.iter_mut().filter(|((event, at), _)| here(event, at));
        let mut found = false;
        for (_, file) in files {
            file.enabled = on;
            file.used |= on;
            found = true;
        }
        if found { Ok(()) } else { Err("ENOENT") }
    }

    fn set_filter(&mut self, place: Place, event: Event, filter: Filter) -> Result<(), Errno> {
        let has_value = self.probes(event).any(|line| line.probe.arguments != Arguments::None);
        let file = self.file(place, event)?;
        if filter == Filter::Malformed || (filter != Filter::Clear && !has_value) {
            file.filter = None;
            return Err("EINVAL");
        }
        file.filter = Some(filter);
        Ok(())
    }

    fn histogram(&mut self, place: Place, event: Event, add: bool) -> Result<(), Errno> {
        let file = self.file(place, event)?;
        match (add, file.histogram) {
            (true, Some(_)) => return Err("EEXIST"),
            (true, None) => file.histogram = Some(0),
            // Also if there is none: event_hist_trigger_parse() returns 0 then.
            (false, _) => file.histogram = None,
        }
        file.used |= add;
        Ok(())
    }

    fn make_instance(&mut self, name: Named) -> Result<(), Errno> {
        self.instances.insert(name, Instance { records: true, entries: 0 });
        let events: BTreeSet<Event> = self.lines.iter().map(|line| line.event).collect();
        let files = events.into_iter().map(|event| ((event, Some(name)), EventFile::new()));
        self.files.extend(files);
        Ok(())
    }

    fn remove_instance(&mut self, name: Named) -> Result<(), Errno> {
        self.instances.remove(&name).ok_or("ENOENT")?;
        self.files.retain(|(_, place), _| *place != Some(name));
        Ok(())
    }

    fn hook(&mut self, name: Named, change: HookChange, functions: &[Function]) -> Result<(), Errno> {
        let functions: BTreeSet<Function> = functions.iter().copied().collect();
        if let HookChange::Add { ipmodify } = change {
            if self.hooks.contains_key(&name) {
                return Err("EEXIST");
            }
            if ipmodify && self.is_modified(name, &functions) {
                return Err("EBUSY");
            }
            self.hooks.insert(name, Hook { ipmodify, registered: true, functions, hits: 0 });
            return Ok(());
        }
        let hook = self.hooks.get(&name).ok_or("ENOENT")?.clone();
        let wanted = match change {
            HookChange::Widen => hook.functions.union(&functions).copied().collect(),
            HookChange::Narrow => hook.functions.difference(&functions).copied().collect(),
            _ => hook.functions.clone(),
        };
        match change {
            HookChange::Enable if hook.registered => return Err("EALREADY"),
            HookChange::Disable if !hook.registered => return Err("EALREADY"),
            HookChange::Remove => {
                self.hooks.remove(&name);
                return Ok(());
            }
            _ => {}
        }
        let registered = match change {
            HookChange::Enable => true,
            HookChange::Disable => false,
            _ => hook.registered,
        };
        if registered && hook.ipmodify && self.is_modified(name, &wanted) {
            return Err("EBUSY");
        }
        self.hooks.insert(name, Hook { registered, functions: wanted, ..hook });
        Ok(())
    }

    /// Returns whether another registered ftrace_ops modifies the instruction pointer of one of the functions.
    fn is_modified(&self, name: Named, functions: &BTreeSet<Function>) -> bool {
        let others = self.hooks.iter().filter(|(other, _)| **other != name);
        others
            .map(|(_, hook)| hook)
            .any(|hook| hook.registered && hook.ipmodify && !hook.functions.is_disjoint(functions))
    }

    /// Counts what one run of the workload must cause.
    fn work(&mut self) {
        for function in FUNCTIONS {
            let hooks = self.hooks.values_mut();
            for hook in hooks.filter(|hook| hook.registered && hook.functions.contains(&function)) {
                hook.hits += function.calls();
            }
            if self.traces_functions && self.filter.contains(&function) {
                *self.traced.entry(function).or_default() += function.calls();
            }
        }
        for index in 0..self.lines.len() {
            let Line { event, probe, .. } = self.lines[index];
            if !self.is_armed(event) {
                continue;
            }
            let values = probe.values();
            self.lines[index].hits += values.len() as u64;
            for ((_, place), file) in self.files.iter_mut().filter(|((name, _), _)| *name == event) {
                if let Some(hits) = &mut file.histogram {
                    *hits += values.len() as u64;
                }
                let filter = file.filter.unwrap_or(Filter::Clear);
                let passed = values.iter().filter(|value| filter.passes(**value)).count() as u64;
                match place {
                    _ if !file.enabled => {}
                    None => *self.recorded.entry(event).or_default() += passed,
                    Some(place) => {
                        let instance = self.instances.get_mut(place).filter(|instance| instance.records);
                        instance.into_iter().for_each(|instance| instance.entries += passed);
                    }
                }
            }
        }
    }

    /// Returns the operations that remove all that there is, in an order that the kernel accepts.
    pub(super) fn tear_down(&self) -> Vec<Operation> {
        let mut all = Vec::new();
        if self.traces_functions {
            all.push(Operation::Tracer(Tracer::Nop));
        }
        all.extend(self.filter.iter().map(|function| Operation::FunctionFilter(*function, false)));
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
            filter: self.filter.clone(),
            traces_functions: self.traces_functions,
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
    filter: BTreeSet<Function>,
    traces_functions: bool,
}

/// The kinds of probes that a kernel has.
pub(super) fn kinds(fprobes: bool) -> &'static [Kind] {
    let all = &[Kind::Kprobe, Kind::Kretprobe, Kind::Fprobe, Kind::Fexit];
    if fprobes { all } else { &all[..2] }
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
