//! Files that are open while what they belong to is changed or removed.

use super::{Family, Functions, Instances, Probes, functions::Tracer, probes::List, triggers::Action};
use crate::explore::{
    draw::Draw,
    names::{Event, Named, Place, call, calls, event_path, path},
    state::{Errno, Model},
};
use serde::{Deserialize, Serialize};

/// A file of an instance. Each holds the instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) enum Held {
    /// `trace`, which is read again afterwards.
    Trace,
    /// `trace_pipe`
    Pipe,
    /// The same, which something waits for.
    Polled,
    /// `trace_pipe_raw` of a CPU.
    Raw,
    /// The same, mapped into memory.
    Mapped,
    /// `set_ftrace_filter`
    Filter,
    /// `trace_marker`
    Marker,
    /// `tracing_on`
    Switch,
    /// A file of `options`.
    Option,
}

impl Held {
    /// Its path in the instance, how it is opened, and what is done then.
    fn file(self) -> &'static str {
        match self {
            Held::Trace => "trace",
            Held::Pipe => "trace_pipe nonblock",
            Held::Polled => "trace_pipe nonblock\nready held",
            Held::Raw => "per_cpu/cpu0/trace_pipe_raw nonblock",
            Held::Mapped => "per_cpu/cpu0/trace_pipe_raw nonblock\nmap held 4096",
            Held::Filter => "set_ftrace_filter",
            Held::Marker => "trace_marker wronly",
            Held::Switch => "tracing_on",
            Held::Option => "options/overwrite",
        }
    }

    /// Returns whether it holds the tracer, too.
    fn holds_tracer(self) -> bool {
        matches!(self, Held::Pipe | Held::Polled | Held::Raw | Held::Mapped)
    }
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) enum Readers {
    /// Changes an instance, or tries to remove it.
    Instance(Named, Held, Instances),
    /// Selects the tracer of an instance.
    Tracer(Named, Held, Tracer),
    /// Removes an event one of whose files is open, which then has nothing to read any more.
    Event(Place, Event, OfEvent),
}

/// A file of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) enum OfEvent {
    /// `enable`
    Enable,
    /// `filter`
    Filter,
    /// `trigger`
    Trigger,
    /// `format`
    Format,
}

impl OfEvent {
    fn name(self) -> &'static str {
        match self {
            OfEvent::Enable => "enable",
            OfEvent::Filter => "filter",
            OfEvent::Trigger => "trigger",
            OfEvent::Format => "format",
        }
    }
}

impl Family for Readers {
    const WEIGHT: usize = 12;

    fn draw(draw: &mut Draw<'_>) -> Readers {
        let there: Vec<Named> = draw.model.instances().map(|(name, _)| name).collect();
        let name = if there.is_empty() { draw.instance() } else { draw.one(&there) };
        let mut held = vec![
            Held::Trace,
            Held::Pipe,
            Held::Polled,
            Held::Raw,
            Held::Filter,
            Held::Marker,
            Held::Switch,
            Held::Option,
        ];
        held.extend(draw.model.facts.maps.then_some(Held::Mapped));
        let held = draw.one(&held);
        match draw.random.u8(..4) {
            0 => {
                let files = [OfEvent::Enable, OfEvent::Filter, OfEvent::Trigger, OfEvent::Format];
                Readers::Event(draw.place(), draw.event(), draw.one(&files))
            }
            1 => Readers::Tracer(name, held, draw.one(&Tracer::ALL)),
            2 => Readers::Instance(name, held, Instances::Remove(name)),
            _ => Readers::Instance(name, draw.one(&[held, Held::Trace]), Instances::draw_change(draw, name)),
        }
    }

    fn knows(&self, model: &Model) -> bool {
        match self {
            Readers::Instance(name, Held::Mapped, _) | Readers::Tracer(name, Held::Mapped, _)
                if model.takes_snapshots(*name) =>
            {
                false
            }
            Readers::Instance(name, held, Instances::Remove(_)) => {
                let frees = *held == Held::Option && model.facts.known.option_removed;
                model.has_instance(*name) && !frees
            }
            Readers::Instance(name, _, change) => model.has_instance(*name) && change.knows(model),
            Readers::Tracer(name, _, tracer) => Functions::Trace(Some(*name), *tracer).knows(model),
            Readers::Event(place, event, file) => {
                // What the top level has recorded would be lost.
                let is_used = model.files.get(&(*event, None)).is_some_and(|file| *file.used);
                let is_there = *event != Event::Syscall && model.files.contains_key(&(*event, *place));
                let ends = model.facts.files_end || *file == OfEvent::Enable;
                ends && is_there && !is_used && Probes::Remove(List::All, *event).knows(model)
            }
        }
    }

    fn apply(&self, model: &mut Model) -> Result<(), Errno> {
        // The workload compares what each call returns.
        let _ = match self {
            Readers::Instance(_, held, change) if is_refused(*held, change) => Ok(()),
            Readers::Instance(_, _, change) => change.apply(model),
            Readers::Tracer(_, held, _) if held.holds_tracer() => Ok(()),
            Readers::Tracer(name, _, tracer) => Functions::Trace(Some(*name), *tracer).apply(model),
            Readers::Event(_, event, _) => Probes::Remove(List::All, *event).apply(model),
        };
        Ok(())
    }

    fn step(&self, model: &Model) -> String {
        let at = |name: Named, held: Held| path(Some(name), held.file());
        let (file, change, refused, left) = match self {
            Readers::Instance(name, held, change) => {
                let refused = is_refused(*held, change).then_some("EBUSY");
                (at(*name, *held), change.step(model), refused, reads_again(*held))
            }
            Readers::Tracer(name, held, tracer) => {
                let change = Functions::Trace(Some(*name), *tracer);
                let changes = model.tracing.get(&Some(*name)).is_some_and(|at| at.tracer != *tracer);
                let errno = change.apply(&mut model.clone()).err();
                let refused = errno.or_else(|| (held.holds_tracer() && changes).then_some("EBUSY"));
                (at(*name, *held), change.step(model), refused, reads_again(*held))
            }
            Readers::Event(place, event, file) => {
                let change = Probes::Remove(List::All, *event);
                let refused = change.apply(&mut model.clone()).is_err();
                let left = if refused { "skip held 65536\n" } else { "skip held 65536 = ENODEV\n" };
                (
                    event_path(*place, *event, file.name()),
                    change.step(model),
                    refused.then_some("EBUSY"),
                    left,
                )
            }
        };
        let change = call(&change).unwrap_or_default();
        let is_resize = matches!(self, Readers::Instance(_, _, Instances::Resize(..)));
        let errno = match refused {
            Some(_) if is_resize && model.facts.known.resize_errno => " = ENOMEM".to_owned(),
            Some(errno) => format!(" = {errno}"),
            None => String::new(),
        };
        calls(&format!("open held {file}\n{change}{errno}\n{left}"))
    }
}

/// Returns whether an open file prevents a change of its instance.
fn is_refused(held: Held, change: &Instances) -> bool {
    match change {
        Instances::Remove(_) => true,
        // What is being read must not move.
        Instances::Resize(..) => matches!(held, Held::Trace | Held::Mapped),
        Instances::Snapshot(_, 1) => held == Held::Mapped,
        _ => false,
    }
}

impl Model {
    /// Returns whether something takes snapshots of an instance, whose buffers then cannot be mapped.
    fn takes_snapshots(&self, name: Named) -> bool {
        let here = |place: &Place| *place == Some(name);
        let mut files = self.files.iter().filter(|((_, place), _)| here(place));
        files.any(|(_, file)| file.triggers.iter().any(|trigger| trigger.spec.action == Action::Snapshot))
            || self
                .commands
                .keys()
                .any(|(place, command, _)| here(place) && command.action == Action::Snapshot)
    }
}

/// What is read from a file after the change.
fn reads_again(held: Held) -> &'static str {
    if held == Held::Trace { "skip held 65536\n" } else { "" }
}
