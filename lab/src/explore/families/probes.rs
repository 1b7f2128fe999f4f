//! Probe events of all kinds: defined, extended by probes, and removed.

use super::Family;
use crate::explore::{
    draw::Draw,
    event_file::EventFile,
    names::{Event, Function, PROGRAM, USER_FUNCTIONS, read_lines, write},
    probe::{Arguments, Kind, Probe},
    state::{Aside, Errno, Line, Model, User},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The files that list probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) enum List {
    /// `kprobe_events`: kprobes and kretprobes.
    Kprobes,
    /// `uprobe_events`: uprobes and uretprobes.
    Uprobes,
    /// `dynamic_events`: all.
    All,
}

impl List {
    fn file(self) -> &'static str {
        match self {
            List::Kprobes => "kprobe_events",
            List::Uprobes => "uprobe_events",
            List::All => "dynamic_events",
        }
    }

    /// Returns whether it lists probes of this kind.
    fn has(self, kind: Kind) -> bool {
        match self {
            List::Kprobes => kind.is_kprobe(),
            List::Uprobes => kind.is_user(),
            List::All => true,
        }
    }
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) enum Probes {
    /// Defines an event, or adds a probe to one.
    Define(Event, Probe),
    /// Removes an event with all of its probes.
    Remove(List, Event),
    /// Removes the probes of an event that are at this function.
    RemoveAt(Event, Function),
    /// Removes everything that a file lists.
    Truncate(List),
}

impl Family for Probes {
    const WEIGHT: usize = 11;
    const ALWAYS: bool = true;

    fn draw(draw: &mut Draw<'_>) -> Probes {
        let facts = *draw.model.facts;
        let user = facts.offsets.is_some() && draw.random.bool();
        let function = if user { draw.one(&USER_FUNCTIONS) } else { draw.function() };
        let event = draw.probes();
        let list = if facts.offsets.is_some() { List::Uprobes } else { List::Kprobes };
        let list = draw.one(&[List::Kprobes, list, List::All]);
        let placeless = match draw.random.u8(..20) {
            0..4 if facts.synthetic => Some((draw.synthetic(), Kind::Synthetic)),
            4..6 if facts.user_events => Some((draw.user(), Kind::User)),
            _ => None,
        };
        if let Some((event, kind)) = placeless {
            let define = Probes::Define(event, Probe::placeless(kind));
            return if draw.on() { define } else { Probes::Remove(list, event) };
        }
        let function = if facts.tprobes && draw.rarely(10) { Function::Load } else { function };
        match draw.random.u8(..11) {
            0 | 1 => Probes::Remove(list, event),
            2 | 3 => Probes::RemoveAt(event, function),
            4 => Probes::Truncate(list),
            _ => Probes::Define(event, draw_probe(draw, function)),
        }
    }

    fn knows(&self, model: &Model) -> bool {
        let known = model.facts.known;
        match *self {
            Probes::Define(event, probe) => {
                let lost = match probe.kind {
                    kind if kind.is_kprobe() => false,
                    kind if kind.is_user() => known.uprobe_append,
                    kind => kind.is_fprobe() && known.fprobe_append,
                };
                // Only a kprobe waits for the module.
                let waits = probe.kind.is_kprobe() || model.has(probe.function);
                let misplaced = known.file_offset && probe.arguments == Arguments::File;
                let leaks = model.facts.leaks && known.arg0_leak && probe.arguments == Arguments::Zeroth;
                let is_lost = lost && model.is_armed(event);
                waits && !(misplaced || leaks || is_lost)
            }
            // It is written as the place of a kprobe.
            Probes::RemoveAt(event, Function::Show)
                if model.probes(event).any(|line| line.probe.kind.is_fprobe()) =>
            {
                false
            }
            Probes::Remove(_, event) | Probes::RemoveAt(event, _) => {
                let is_user = model.probes(event).any(|line| line.probe.kind.is_user());
                let lost = known.uprobe_removed && is_user && model.is_armed(event);
                let nameless = known.field_name && self.removes_some(model, event);
                !(lost || nameless)
                    && model
                        .can_clear(model.files.iter().any(|((name, _), file)| *name == event && *file.used))
            }
            // It removes some of them if one is armed that has no other user.
            Probes::Truncate(_) => {
                let synthetic =
                    |line: &Line| line.probe.kind == Kind::Synthetic && model.is_armed(line.event);
                !model.lines.iter().any(synthetic)
                    && model.can_clear(model.files.values().any(|file| *file.used))
            }
        }
    }

    fn apply(&self, model: &mut Model) -> Result<(), Errno> {
        match *self {
            Probes::Define(event, probe) => model.define(event, probe),
            Probes::Remove(list, event) => model.remove(event, |line| list.has(line.probe.kind)),
            Probes::RemoveAt(event, function) => {
                model.remove(event, |line| line.probe.function == function && line.probe.kind != Kind::Eprobe)
            }
            Probes::Truncate(list) => model.truncate(list),
        }
    }

    fn step(&self, model: &Model) -> String {
        let facts = &model.facts;
        match *self {
            Probes::Define(event, probe) => {
                let (letter, name) = (probe.kind.letter(), probe.name(event));
                write("dynamic_events", &format!("{letter}:{name} {}", probe.text(facts)), true)
            }
            Probes::Remove(list, event) => {
                // A user event is not known by its name alone.
                let fields = match event {
                    Event::User(..) => format!(" {}", Probe::placeless(Kind::User).text(facts)),
                    _ => String::new(),
                };
                write(list.file(), &format!("-:{event}{fields}"), true)
            }
            Probes::RemoveAt(event, function) => {
                let kind = if function.is_user() { Kind::Uprobe } else { Kind::Kprobe };
                let at = Probe { kind, function, arguments: Arguments::None }.at(facts);
                write("dynamic_events", &format!("-:{event} {at}"), true)
            }
            Probes::Truncate(list) => write(list.file(), "", false),
        }
    }

    fn look(model: &Model) -> Vec<String> {
        let lines = |kind: fn(Kind) -> bool, line: &dyn Fn(&Line) -> String| -> Vec<String> {
            model.lines.iter().filter(|line| kind(line.probe.kind)).map(line).collect()
        };
        let listed = |line: &Line| {
            // Some kernels print the default maxactive of a return probe.
            let maxactive = match line.probe.kind {
                Kind::Kretprobe | Kind::Fprobe | Kind::Fexit => r"\d*",
                _ => "",
            };
            let letter = line.probe.kind.letter();
            let name = line.probe.name(line.event);
            let text = regex::escape(&line.probe.text(&model.facts));
            format!(r"{letter}{maxactive}:{name}\s{text}\n")
        };
        let profiled = |line: &Line| format!(r" *{} +{} +0\n", line.event.name(), *line.hits);
        let counted =
            |line: &Line| format!(r" *\/workloads\/{PROGRAM} +{} +{}\n", line.event.name(), *line.hits);
        let mut steps = vec![
            read_lines("dynamic_events", &lines(|_| true, &listed)),
            // None was missed.
            read_lines("kprobe_profile", &lines(Kind::is_kprobe, &profiled)),
        ];
        if model.facts.offsets.is_some() {
            steps.push(read_lines("uprobe_profile", &lines(Kind::is_user, &counted)));
        }
        for function in model.functions() {
            let is = match model.has_brk(function) {
                true => "brk 0x4",
                // The original text of a module is what was there after it was loaded: perhaps a BRK.
                false if function == Function::Show => continue,
                false => "original",
            };
            steps.push(format!("text: {{ at: {:?} }}, is: {is}", function.place()));
        }
        steps
    }

    fn tear_down(model: &Model) -> Vec<Probes> {
        Vec::from_iter((!model.lines.is_empty()).then_some(Probes::Truncate(List::All)))
    }
}

fn draw_probe(draw: &mut Draw<'_>, function: Function) -> Probe {
    let facts = *draw.model.facts;
    let kinds: &[Kind] = match function.is_user() {
        _ if function == Function::Load => &[Kind::Tprobe],
        true if function == Function::Open && facts.eprobes => {
            &[Kind::Uprobe, Kind::Uretprobe, Kind::Eprobe, Kind::Eprobe]
        }
        true => &[Kind::Uprobe, Kind::Uretprobe],
        false if facts.fprobes && draw.model.has(function) => {
            &[Kind::Kprobe, Kind::Kretprobe, Kind::Fprobe, Kind::Fexit]
        }
        false => &[Kind::Kprobe, Kind::Kretprobe],
    };
    let kind = draw.one(kinds);
    let arguments = match kind {
        kind if kind.is_user() && draw.rarely(4) => Arguments::File,
        kind if (kind.is_kprobe() || kind.is_fprobe()) && draw.rarely(10) => Arguments::Zeroth,
        _ => draw.one(&[Arguments::None, Arguments::Own, Arguments::Own, Arguments::Immediate]),
    };
    Probe { kind, function, arguments }
}

impl Probes {
    /// Returns whether some of the probes of an event are removed, and others stay.
    fn removes_some(&self, model: &Model, event: Event) -> bool {
        let count = |model: &Model| model.probes(event).count();
        let mut after = model.clone();
        let _ = self.apply(&mut after);
        (1..count(model)).contains(&count(&after))
    }
}

impl Model {
    /// Returns whether a BRK is at the beginning of a function.
    pub(in crate::explore) fn has_brk(&self, function: Function) -> bool {
        let here = |line: &&Line| line.probe.kind.is_kprobe() && line.probe.function == function;
        !self.disarmed && self.lines.iter().filter(here).any(|line| self.is_armed(line.event))
    }

    /// Returns the events that cannot be armed now: those with an fprobe of a function that the kernel does not have,
    /// and, by a bug, with a kprobe while all are disarmed.
    pub(super) fn unarmable(&self) -> impl Iterator<Item = Event> {
        let stays_off = self.disarmed && self.facts.known.kprobe_disarmed;
        let is_unarmable = move |line: &&Line| match line.probe.kind {
            kind if kind.is_fprobe() => !self.has(line.probe.function),
            kind => kind.is_kprobe() && stays_off,
        };
        self.lines.iter().filter(is_unarmable).map(|line| line.event)
    }

    fn define(&mut self, event: Event, probe: Probe) -> Result<(), Errno> {
        if probe.arguments == Arguments::Zeroth {
            return Err("EINVAL");
        }
        let siblings: Vec<Probe> = self.probes(event).map(|line| line.probe).collect();
        let is_new = siblings.is_empty();
        let types = |probe: Probe| (probe.kind, probe.has_value());
        let differs = siblings.iter().any(|other| types(*other) != types(probe));
        let same = |other: &Probe| {
            (other.at(&self.facts), other.fetched()) == (probe.at(&self.facts), probe.fetched())
        };
        let is_alone = matches!(probe.kind, Kind::Eprobe | Kind::Synthetic) && !is_new;
        // It is the same.
        if probe.kind == Kind::User && !is_new {
            return Ok(());
        }
        if differs || is_alone || siblings.iter().any(same) {
            let lost = self.facts.known.fprobe_errno && probe.kind.is_fprobe();
            return Err(if lost { "EINVAL" } else { "EEXIST" });
        }
        self.lines.push(Line { event, probe, hits: Aside(0), is_lost: false });
        if is_new {
            let places: Vec<_> = self.tracing.keys().copied().collect();
            self.files.extend(places.into_iter().map(|place| ((event, place), EventFile::new())));
            self.recorded.entry(event).or_default();
        }
        Ok(())
    }

    /// Removes probes as the kernel walks its list: of an enabled event, all but its last one.
    fn remove(&mut self, event: Event, wanted: impl Fn(&Line) -> bool) -> Result<(), Errno> {
        if !self.probes(event).any(&wanted) {
            return Err("ENOENT");
        }
        let is_busy = self.is_busy(event);
        let mut left = self.probes(event).count();
        let mut refused = false;
        self.lines.retain(|line| {
            if line.event != event || !wanted(line) {
                return true;
            }
            refused |= is_busy && left == 1;
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
        if events.iter().any(|event| self.is_busy(*event)) {
            return Err("EBUSY");
        }
        self.lines.retain(|line| !events.contains(&line.event));
        events.into_iter().for_each(|event| self.forget(event));
        Ok(())
    }

    /// Drops the files of an event that is gone. The buffers that may have its records are cleared.
    fn forget(&mut self, event: Event) {
        for ((name, place), file) in &self.files {
            if *name == event && *file.used {
                self.tracing.get_mut(place).into_iter().for_each(|at| at.clear());
            }
        }
        self.files.retain(|(name, _), _| *name != event);
        self.order.retain(|user| *user != User::Uprobes(event));
    }
}
