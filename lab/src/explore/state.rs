//! The state of tracing: what is defined, enabled and registered, and what was counted.

use super::{
    event_file::EventFile,
    facts::Facts,
    families::{
        commands::Command,
        functions::{GraphFilter, Tracer},
        hooks::Way,
        instances::{Choice, Clock},
        keys::Keys,
    },
    names::{Event, Function, Named, Place},
    probe::Probe,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{Hash, Hasher},
    ops::{Deref, DerefMut},
};

/// A count or the like, which does not distinguish states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Aside<T>(pub(super) T);

impl<T> Hash for Aside<T> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl<T> Deref for Aside<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Aside<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// A ring buffer of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Buffer {
    /// Whether it records.
    pub(super) records: bool,
    /// The number of its events.
    pub(super) entries: Aside<u64>,
    /// How many of them are older than the last time that the buffer in use was emptied. `trace` leaves them out.
    pub(super) older: Aside<u64>,
    /// Whether it was made for snapshots.
    pub(super) spare: bool,
}

impl Buffer {
    fn new(spare: bool) -> Buffer {
        Buffer { records: true, entries: Aside(0), older: Aside(0), spare }
    }

    /// Returns the number of events that `trace` shows while it is in use.
    pub(super) fn shown(&self) -> u64 {
        *self.entries - *self.older
    }

    /// Empties it.
    pub(super) fn clear(&mut self) {
        (*self.entries, *self.older) = (0, 0);
    }
}

/// An instance, or the top level.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tracing {
    /// `set_ftrace_filter`.
    pub(super) filter: BTreeSet<Function>,
    /// How often it has a function of the module that is not loaded yet.
    pub(super) awaits: u8,
    /// Whether it had a function of the module when that was unloaded: it shows nothing of it, and is not empty.
    pub(super) was_gone: bool,
    /// `current_tracer`.
    pub(super) tracer: Tracer,
    /// Whether events of the workload are ignored.
    pub(super) ignores: bool,
    /// Whether calls of the workload are ignored.
    pub(super) ignores_calls: bool,
    /// Whether events, and calls, of process 1 are ignored, which causes none.
    pub(super) ignores_agent: (bool, bool),
    /// The buffer that is recorded to. That of the top level is emptied all the time.
    pub(super) buffer: Buffer,
    /// The snapshot, if it is allocated.
    pub(super) snapshot: Option<Buffer>,
    /// The size of the buffers, in KiB per CPU, if it was set.
    pub(super) size: Option<u32>,
    /// `trace_clock`.
    pub(super) clock: Clock,
    /// Whether a stack is recorded after each event.
    pub(super) stacks: bool,
    /// The other options that were set.
    pub(super) options: BTreeMap<Choice, bool>,
}

impl Tracing {
    pub(super) fn new() -> Tracing {
        Tracing {
            filter: BTreeSet::new(),
            awaits: 0,
            was_gone: false,
            tracer: Tracer::default(),
            ignores: false,
            ignores_calls: false,
            ignores_agent: (false, false),
            buffer: Buffer::new(false),
            snapshot: None,
            size: None,
            clock: Clock::default(),
            stacks: false,
            options: BTreeMap::new(),
        }
    }

    /// Returns whether the filter is empty, which means all functions.
    pub(super) fn has_no_filter(&self) -> bool {
        self.filter.is_empty() && self.awaits == 0 && !self.was_gone
    }

    /// Empties the buffers, as by a change of the clock.
    pub(super) fn clear(&mut self) {
        self.buffer.clear();
        self.snapshot.iter_mut().for_each(Buffer::clear);
    }

    /// Empties the buffer that is in use.
    pub(super) fn restart(&mut self) {
        self.buffer.clear();
        self.snapshot.iter_mut().for_each(|buffer| buffer.older = buffer.entries);
    }

    /// Allocates the snapshot, unless it is.
    pub(super) fn allocate(&mut self) {
        let spare = !self.buffer.spare;
        self.snapshot.get_or_insert(Buffer::new(spare));
    }
}

/// A hook.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hook {
    /// What it does to its functions.
    pub(super) way: Way,
    /// Whether it is registered.
    pub(super) registered: bool,
    /// Whether ftrace cannot be turned off while it is.
    pub(super) permanent: bool,
    /// Whether it has the flag SAVE_REGS.
    pub(super) saves_registers: bool,
    /// Its filter.
    pub(super) functions: BTreeSet<Function>,
    /// The number of its hits.
    pub(super) hits: Aside<u64>,
}

/// A line of `dynamic_events`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Line {
    /// Its event.
    pub(super) event: Event,
    /// The probe.
    pub(super) probe: Probe,
    /// The number of its hits.
    pub(super) hits: Aside<u64>,
    /// Whether its function went with the module while it was armed. It is not hit until it is armed anew.
    pub(super) is_lost: bool,
}

/// What calls are announced to in the order of registration, the last one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum User {
    /// The tracer of a place.
    Tracer(Place),
    /// All commands of a kind in `set_ftrace_filter` of a place.
    Commands(Place, Command),
    /// The uprobes of an event.
    Uprobes(Event),
}

/// The state of tracing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Model {
    /// All probes, in the order in which they were defined.
    pub(super) lines: Vec<Line>,
    /// The events, at each place.
    pub(super) files: BTreeMap<(Event, Place), EventFile>,
    /// The hooks.
    pub(super) hooks: BTreeMap<Named, Hook>,
    /// The top level and the instances.
    pub(super) tracing: BTreeMap<Place, Tracing>,
    /// The commands in `set_ftrace_filter`, with what is left of their counts.
    pub(super) commands: BTreeMap<(Place, Command, Function), (Option<Event>, u32)>,
    /// See [`User`].
    pub(super) order: Vec<User>,
    /// What is in the filters of the graph tracer.
    pub(super) graph_filters: BTreeSet<(GraphFilter, Function)>,
    /// Static keys and their module.
    pub(super) keys: Keys,
    /// Whether the livepatch is loaded.
    pub(super) livepatched: bool,
    /// Whether all kprobes are disarmed.
    pub(super) disarmed: bool,
    /// Whether ftrace is off.
    pub(super) ftrace_off: bool,
    /// Whether the second CPU is off.
    pub(super) cpu_off: bool,
    /// Whether another process reads and changes tracing at the same time.
    pub(super) has_lane: Aside<bool>,
    /// What the kernel is and does.
    pub(super) facts: Aside<Facts>,
    /// The values in the whole trace of the top level, by event; `None` where an event had no `value`.
    pub(super) recorded: Aside<BTreeMap<Event, Vec<Option<u64>>>>,
    /// The events in the whole trace of the top level, at each moment at which something may be recorded. In which
    /// order those of one moment come depends on the kernel.
    pub(super) moments: Aside<Vec<BTreeSet<Event>>>,
    /// The calls in the whole trace of the top level, by what recorded them, and those by wrappers.
    pub(super) traced: Aside<BTreeMap<(Tracer, Function), [u64; 2]>>,
    /// Whether a wrapper is calling.
    pub(super) is_wrapped: Aside<bool>,
    /// The stacks in the whole trace of the top level.
    pub(super) stacked: Aside<u64>,
}

impl Model {
    /// The state before the first operation.
    pub(super) fn new(facts: Facts) -> Model {
        let own = facts.syscalls.then_some(Event::Syscall);
        Model {
            lines: Vec::new(),
            files: own.into_iter().map(|event| ((event, None), EventFile::new())).collect(),
            hooks: BTreeMap::new(),
            tracing: BTreeMap::from([(None, Tracing::new())]),
            commands: BTreeMap::new(),
            order: Vec::new(),
            graph_filters: BTreeSet::new(),
            keys: Keys::default(),
            livepatched: false,
            disarmed: false,
            ftrace_off: false,
            cpu_off: false,
            has_lane: Aside(false),
            facts: Aside(facts),
            recorded: Aside(own.into_iter().map(|event| (event, Vec::new())).collect()),
            moments: Aside::default(),
            traced: Aside::default(),
            is_wrapped: Aside::default(),
            stacked: Aside::default(),
        }
    }

    /// Returns the state after a change, whose errno does not matter.
    pub(super) fn after(&self, change: impl FnOnce(&mut Model) -> Result<(), Errno>) -> Model {
        let mut after = self.clone();
        let _ = change(&mut after);
        after
    }

    /// Returns the instances.
    pub(super) fn instances(&self) -> impl Iterator<Item = (Named, &Tracing)> {
        self.tracing.iter().filter_map(|(place, at)| place.map(|name| (name, at)))
    }

    /// Returns whether there is an instance of this name.
    pub(super) fn has_instance(&self, name: Named) -> bool {
        self.tracing.contains_key(&Some(name))
    }

    /// Returns a place.
    ///
    /// # Errors
    /// There is no such instance.
    pub(super) fn place(&mut self, place: Place) -> Result<&mut Tracing, Errno> {
        self.tracing.get_mut(&place).ok_or("ENOENT")
    }

    /// Returns the events of a place. At the top level, these are all.
    pub(super) fn events(&self, place: Place) -> impl Iterator<Item = Event> {
        self.files.keys().filter(move |(_, at)| *at == place).map(|(event, _)| *event)
    }

    /// Returns the probes of an event, in order.
    pub(super) fn probes(&self, event: Event) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(move |line| line.event == event)
    }

    /// Returns the number of records in the whole trace of the top level.
    pub(super) fn records(&self) -> u64 {
        let of_events: usize = self.recorded.values().map(Vec::len).sum();
        let of_calls = self.traced.iter().map(|((tracer, _), [outer, inner])| {
            let each = tracer.events().len() as u64;
            each * (outer + inner)
        });
        of_events as u64 + of_calls.sum::<u64>() + *self.stacked
    }

    /// Returns whether the records of an event have a `value`.
    pub(super) fn has_value(&self, event: Event) -> bool {
        self.probes(event).any(|line| line.probe.has_value())
    }
}

/// The name of an errno.
pub(super) type Errno = &'static str;
