//! What tracing must do: a pure model of the operations.
//!
//! [`Model::apply`] returns the errno that the kernel must return, and keeps what must be there afterwards.

use super::{
    operation::{
        Arguments, Event, FUNCTIONS, Filter, Function, HookChange, Kind, List, Named, Operation, Place,
        Probe, Tracer,
    },
    state::{EventFile, Hook, Instance, Line, Model, Tracing},
};
use std::collections::BTreeSet;

/// The name of an errno.
pub(super) type Errno = &'static str;

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
            Operation::RemoveAt(event, function) => self.remove_at(*event, *function),
            Operation::FunctionFilter(place, function, add) => {
                let filter = &mut self.place(*place)?.filter;
                if *add {
                    filter.insert(*function);
                } else {
                    filter.remove(function);
                }
                Ok(())
            }
            Operation::Tracer(place, tracer) => self.trace(*place, *tracer == Tracer::Function),
            Operation::PidFilter(place, on) => {
                self.place(*place)?.ignores = *on;
                Ok(())
            }
            Operation::ArmKprobes(on) => {
                self.disarmed = !on;
                Ok(())
            }
            Operation::Ftrace(on) => {
                self.ftrace_off = !on;
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
            Operation::FunctionFilter(place, function, false) => self.tracing.get(place).is_some_and(|at| {
                at.filter.contains(function) && (!at.traces_functions || at.filter.len() > 1)
            }),
            Operation::Tracer(place, Tracer::Function) => {
                self.tracing.get(place).is_some_and(|at| !at.filter.is_empty())
            }
            Operation::Hook(_, HookChange::Add { ipmodify }, functions) => *ipmodify || !functions.is_empty(),
            Operation::Hook(_, HookChange::Widen, functions) => !functions.is_empty(),
            Operation::Hook(name, HookChange::Narrow, functions) => {
                let all = |hook: &Hook| functions.iter().all(|function| hook.functions.contains(function));
                functions.len() == 1
                    && self.hooks.get(name).is_none_or(|hook| all(hook) && hook.functions.len() > 1)
            }
            // The agent's mkdir accepts what exists, and the step that removes has no errno.
            Operation::MakeInstance(name) => !self.instances.contains_key(name),
            Operation::RemoveInstance(name) => self.instances.contains_key(name),
            Operation::Define(event, probe) => {
                !(self.known.fprobe_append && !probe.kind.is_kprobe() && self.is_armed(*event))
            }
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
        !self.disarmed && self.lines.iter().filter(here).any(|line| self.is_armed(line.event))
    }

    /// Returns the number of ftrace_ops that a function has, and whether there may be more of fprobes.
    pub(super) fn ops(&self, function: Function) -> (u64, bool) {
        if self.ftrace_off {
            return (0, false);
        }
        let hooks = self.hooks.values().filter(|hook| hook.registered && hook.functions.contains(&function));
        let traced = self.tracing.values().filter(|at| at.traces(function));
        let probed = |line: &Line| {
            !line.probe.kind.is_kprobe() && line.probe.function == function && self.is_armed(line.event)
        };
        ((hooks.count() + traced.count()) as u64, self.lines.iter().any(probed))
    }

    /// Returns what is set at a place.
    fn place(&mut self, place: Place) -> Result<&mut Tracing, Errno> {
        if place.is_some_and(|name| !self.instances.contains_key(&name)) {
            return Err("ENOENT");
        }
        Ok(self.tracing.entry(place).or_default())
    }

    /// Selects a tracer. A new one begins with an empty buffer.
    fn trace(&mut self, place: Place, functions: bool) -> Result<(), Errno> {
        let at = self.place(place)?;
        if at.traces_functions != functions {
            at.traces_functions = functions;
            let instance = place.and_then(|name| self.instances.get_mut(&name));
            instance.into_iter().for_each(|instance| instance.entries = 0);
        }
        Ok(())
    }

    fn define(&mut self, event: Event, probe: Probe) -> Result<(), Errno> {
        let siblings: Vec<Probe> = self.probes(event).map(|line| line.probe).collect();
        let is_new = siblings.is_empty();
        let types = |probe: Probe| (probe.kind, probe.arguments == Arguments::None);
        let differs = siblings.iter().any(|other| types(*other) != types(probe));
        let same = |other: &Probe| other.place() == probe.place();
        if differs || siblings.iter().any(same) {
            let lost = self.known.fprobe_errno && !probe.kind.is_kprobe();
            return Err(if lost { "EINVAL" } else { "EEXIST" });
        }
        self.lines.push(Line { event, probe, hits: 0 });
        if is_new {
            let places = self.instances.keys().copied().map(Some).chain([None]);
            self.files.extend(places.map(|place| ((event, place), EventFile::new())));
            self.recorded.entry(event).or_default();
        }
        Ok(())
    }

    fn remove(&mut self, list: List, event: Event) -> Result<(), Errno> {
        self.remove_lines(event, |line| list.has(line.probe.kind))
    }

    fn remove_at(&mut self, event: Event, function: Function) -> Result<(), Errno> {
        self.remove_lines(event, |line| line.probe.function == function)
    }

    /// Removes probes as the kernel walks its list: of an enabled event, all but its last one.
    fn remove_lines(&mut self, event: Event, wanted: impl Fn(&Line) -> bool) -> Result<(), Errno> {
        if !self.probes(event).any(&wanted) {
            return Err("ENOENT");
        }
        let is_armed = self.is_armed(event);
        let mut left = self.probes(event).count();
        let mut refused = false;
        self.lines.retain(|line| {
            if line.event != event || !wanted(line) {
                return true;
            }
            refused |= is_armed && left == 1;
            left -= usize::from(!refused);
            refused
        });
        if refused {
            return Err("EBUSY");
        }
        if left == 0 {
            self.forget(event);
        }
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
        self.tracing.remove(&Some(name));
        self.files.retain(|(_, place), _| *place != Some(name));
        Ok(())
    }

    fn hook(&mut self, name: Named, change: HookChange, functions: &[Function]) -> Result<(), Errno> {
        let functions: BTreeSet<Function> = functions.iter().copied().collect();
        if let HookChange::Add { ipmodify } = change {
            if self.hooks.contains_key(&name) {
                return Err("EEXIST");
            }
            // It would modify all functions.
            if ipmodify && functions.is_empty() {
                return Err("EINVAL");
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
            if !self.ftrace_off {
                self.call(function);
            }
        }
        for index in 0..self.lines.len() {
            let Line { event, probe, .. } = self.lines[index];
            let off = if probe.kind.is_kprobe() { self.disarmed } else { self.ftrace_off };
            if !self.is_armed(event) || off {
                continue;
            }
            let values = probe.values();
            self.lines[index].hits += values.len() as u64;
            self.hit(event, &values);
        }
    }

    /// Counts the calls of a function by hooks and function tracers.
    fn call(&mut self, function: Function) {
        let hooks = self.hooks.values_mut();
        for hook in hooks.filter(|hook| hook.registered && hook.functions.contains(&function)) {
            hook.hits += function.calls();
        }
        for (place, _) in self.tracing.iter().filter(|(_, at)| at.traces(function)) {
            match place {
                None => *self.traced.entry(function).or_default() += function.calls(),
                Some(name) => {
                    let instance = self.instances.get_mut(name).filter(|instance| instance.records);
                    instance.into_iter().for_each(|instance| instance.entries += function.calls());
                }
            }
        }
    }

    /// Counts the records of a probe at each place.
    fn hit(&mut self, event: Event, values: &[u64]) {
        let triggers_ignore_pids = self.known.triggers_ignore_pids;
        for ((_, place), file) in self.files.iter_mut().filter(|((name, _), _)| *name == event) {
            let ignored = self.tracing.get(place).is_some_and(|at| at.ignores);
            if let Some(hits) = file.histogram.as_mut().filter(|_| !ignored || triggers_ignore_pids) {
                *hits += values.len() as u64;
            }
            let filter = file.filter.unwrap_or(Filter::Clear);
            let passed = values.iter().filter(|value| filter.passes(**value)).count() as u64;
            match place {
                _ if !file.enabled || ignored => {}
                None => *self.recorded.entry(event).or_default() += passed,
                Some(place) => {
                    let instance = self.instances.get_mut(place).filter(|instance| instance.records);
                    instance.into_iter().for_each(|instance| instance.entries += passed);
                }
            }
        }
    }
}

/// The kinds of probes that a kernel has.
pub(super) fn kinds(fprobes: bool) -> &'static [Kind] {
    let all = &[Kind::Kprobe, Kind::Kretprobe, Kind::Fprobe, Kind::Fexit];
    if fprobes { all } else { &all[..2] }
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
