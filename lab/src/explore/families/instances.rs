//! Tracing instances: made and removed while in use, with their buffers, clocks, options and snapshots.

use super::{
    Family,
    commands::Command,
    functions::Tracer,
    triggers::{Action, Spec},
};
use crate::explore::{
    draw::Draw,
    event_file::EventFile,
    names::{Event, Function, Named, Place, calls, path, switch, write},
    state::{Buffer, Errno, Model, Tracing, User},
};
use serde::{Deserialize, Serialize};
use std::mem;

/// A clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) enum Clock {
    /// `local`, the first one.
    #[default]
    Local,
    /// `global`
    Global,
    /// `mono`
    Mono,
    /// `boot`
    Boot,
}

impl Clock {
    const ALL: [Clock; 4] = [Clock::Local, Clock::Global, Clock::Mono, Clock::Boot];

    fn name(self) -> &'static str {
        match self {
            Clock::Local => "local",
            Clock::Global => "global",
            Clock::Mono => "mono",
            Clock::Boot => "boot",
        }
    }
}

/// The sizes, in KiB per CPU.
const SIZES: [u32; 4] = [64, 100, 513, 1408];

/// An option of an instance that does not change what else is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) enum Choice {
    /// `markers`: without it, they are refused.
    Markers,
    /// `overwrite`
    Overwrite,
    /// `record-tgid`
    Tgid,
    /// `irq-info`
    Irqs,
    /// `sym-offset`
    Offsets,
}

impl Choice {
    const ALL: [Choice; 5] =
        [Choice::Markers, Choice::Overwrite, Choice::Tgid, Choice::Irqs, Choice::Offsets];

    fn file(self) -> &'static str {
        match self {
            Choice::Markers => "options/markers",
            Choice::Overwrite => "options/overwrite",
            Choice::Tgid => "options/record-tgid",
            Choice::Irqs => "options/irq-info",
            Choice::Offsets => "options/sym-offset",
        }
    }
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) enum Instances {
    /// Makes an instance.
    Make(Named),
    /// Removes an instance.
    Remove(Named),
    /// Turns recording on or off.
    Record(Place, bool),
    /// Clears the buffer of an instance.
    Clear(Named),
    /// Writes a marker to an instance.
    Mark(Named),
    /// Frees, takes or clears the snapshot of an instance: 0, 1 or 2.
    Snapshot(Named, u8),
    /// Sets the size of an instance's buffers.
    Resize(Named, u32),
    /// Sets the clock of an instance.
    Clock(Named, Clock),
    /// Sets whether an instance records a stack after each event.
    Stacks(Named, bool),
    /// Sets another option of an instance.
    Option(Named, Choice, bool),
}

impl Family for Instances {
    const WEIGHT: usize = 6;

    fn draw(draw: &mut Draw<'_>) -> Instances {
        let (name, on) = (draw.instance(), draw.on());
        match draw.random.u8(..10) {
            0..4 if on => Instances::Make(name),
            0..4 => Instances::Remove(name),
            4 => Instances::Mark(name),
            5 => Instances::Record(draw.place(), !on),
            6 => Instances::Record(Some(name), !on),
            _ => Instances::draw_change(draw, name),
        }
    }

    fn knows(&self, model: &Model) -> bool {
        match self {
            // The agent's mkdir accepts what exists, and the step that removes has no errno.
            Instances::Make(name) => !model.has_instance(*name),
            // Histograms with variables hold their instance.
            Instances::Remove(name) => {
                let known = model.facts.known;
                let holds = |event: Event, spec: Spec| match spec.action {
                    Action::Trace => true,
                    Action::Histogram => known.synthetic_instance && matches!(event, Event::Synthetic(..)),
                    _ => false,
                };
                let mut files = model.files.iter().filter(|((_, place), _)| *place == Some(*name));
                let waits = model.tracing.get(&Some(*name)).is_some_and(|at| at.awaits > 0);
                model.has_instance(*name)
                    && !(waits && model.facts.leaks && known.mod_leak)
                    && !files.any(|((event, _), file)| {
                        file.triggers.iter().any(|trigger| holds(*event, trigger.spec))
                    })
            }
            Instances::Clear(_) | Instances::Clock(..) | Instances::Snapshot(_, 2) => model.can_clear(true),
            _ => true,
        }
    }

    fn apply(&self, model: &mut Model) -> Result<(), Errno> {
        match *self {
            Instances::Make(name) => {
                model.tracing.insert(Some(name), Tracing::new());
                let events: Vec<Event> = model.events(None).collect();
                let files = events.into_iter().map(|event| ((event, Some(name)), EventFile::new()));
                model.files.extend(files);
            }
            Instances::Remove(name) => model.remove_instance(Some(name))?,
            Instances::Record(place, on) => model.place(place)?.buffer.records = on,
            Instances::Clear(name) => model.place(Some(name))?.restart(),
            Instances::Mark(name) => {
                let at = model.place(Some(name))?;
                if at.options.get(&Choice::Markers) == Some(&false) {
                    return Err("EINVAL");
                }
                if !at.buffer.records {
                    return Err("EBADF");
                }
                *at.buffer.entries += 1;
            }
            Instances::Snapshot(name, what) => {
                let at = model.place(Some(name))?;
                match what {
                    0 => at.snapshot = None,
                    1 => {
                        at.allocate();
                        at.swap();
                    }
                    _ => at.snapshot.iter_mut().for_each(Buffer::clear),
                }
            }
            Instances::Resize(name, size) => model.place(Some(name))?.size = Some(size),
            Instances::Clock(name, clock) => {
                let at = model.place(Some(name))?;
                at.clock = clock;
                at.clear();
            }
            Instances::Stacks(name, on) => model.place(Some(name))?.stacks = on,
            Instances::Option(name, option, on) => {
                model.place(Some(name))?.options.insert(option, on);
            }
        }
        Ok(())
    }

    fn step(&self, _: &Model) -> String {
        let to = |name: Named, file: &str, text: &str| write(&path(Some(name), file), text, false);
        match *self {
            Instances::Make(name) => format!("mkdir: \"instances/{name}\""),
            Instances::Remove(name) => calls(&format!("rmdir instances/{name}")),
            Instances::Record(place, on) => write(&path(place, "tracing_on"), switch(on), false),
            Instances::Clear(name) => to(name, "trace", ""),
            Instances::Mark(name) => to(name, "trace_marker", "marked"),
            Instances::Snapshot(name, what) => to(name, "snapshot", &what.to_string()),
            Instances::Resize(name, size) => to(name, "buffer_size_kb", &size.to_string()),
            Instances::Clock(name, clock) => to(name, "trace_clock", clock.name()),
            Instances::Stacks(name, on) => to(name, "options/stacktrace", switch(on)),
            Instances::Option(name, option, on) => to(name, option.file(), switch(on)),
        }
    }

    fn look(model: &Model) -> Vec<String> {
        let mut steps = Vec::new();
        for (place, at) in &model.tracing {
            let read = |file: &str, check: &str, text: &str| {
                format!("read: {:?}, text: {{ {check}: {text:?} }}", path(*place, file))
            };
            steps.push(read("tracing_on", "equal", switch(at.buffer.records)));
            if place.is_none() {
                continue;
            }
            steps.extend(at.options.iter().map(|(option, on)| read(option.file(), "equal", switch(*on))));
            let entries = |entries: u64| match at.tracer {
                Tracer::Graph => "FUNCTION CALLS".to_owned(),
                _ => format!("entries-in-buffer/entries-written: {entries}/{entries} "),
            };
            steps.push(read("trace", "contains", &entries(at.buffer.shown())));
            if at.tracer == Tracer::Graph {
                steps.push(counted(*place, *at.buffer.entries));
            }
            steps.push(match at.snapshot.as_ref().map(|buffer| *buffer.entries) {
                None => read("snapshot", "contains", "Snapshot is freed"),
                Some(0) => read("snapshot", "contains", "Snapshot is allocated"),
                Some(count) => read("snapshot", "contains", &entries(count)),
            });
            steps.extend(at.size.map(|size| read("buffer_size_kb", "matches", &sizes(size))));
            steps.push(read("trace_clock", "contains", &format!("[{}]", at.clock.name())));
        }
        steps
    }

    fn tear_down(model: &Model) -> Vec<Instances> {
        let off = model.tracing[&None].buffer.records;
        let on = (!off).then_some(Instances::Record(None, true));
        on.into_iter().chain(model.instances().map(|(name, _)| Instances::Remove(name))).collect()
    }
}

/// A step that counts the events in the buffers of all CPUs: the graph tracer's `trace` does not tell.
fn counted(place: Place, entries: u64) -> String {
    let stats = path(place, "per_cpu/cpu*/stats");
    let sum = format!("awk '/^entries/ {{ n += $2 }} END {{ print n }}' /sys/kernel/tracing/{stats}");
    format!("sh: {sum:?}, stdout: {{ equal: \"{entries}\" }}")
}

/// What a size becomes: since 6.12.117 at the latest it is that of whole pages, each with a header, and of at least two.
fn sizes(size: u32) -> String {
    let rounded = |page: u32| {
        let data = page - 16;
        ((size << 10).div_ceil(data).max(2) * data) >> 10
    };
    format!(r"\A({size}|{}|{})\n\z", rounded(4 << 10), rounded(64 << 10))
}

impl Instances {
    /// A change of an instance that the kernel accepts.
    pub(in crate::explore) fn draw_change(draw: &mut Draw<'_>, name: Named) -> Instances {
        let all = [
            Instances::Clear(name),
            Instances::Snapshot(name, draw.one(&[0, 1, 1, 2])),
            Instances::Resize(name, draw.one(&SIZES)),
            Instances::Clock(name, draw.one(&Clock::ALL)),
            Instances::Stacks(name, draw.on()),
            Instances::Option(name, draw.one(&Choice::ALL), draw.random.bool()),
        ];
        draw.one(&all)
    }
}

impl Tracing {
    /// Takes a snapshot, which must be allocated. The buffer in use and that of the snapshot change places.
    pub(in crate::explore) fn swap(&mut self) {
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.records = self.buffer.records;
            mem::swap(snapshot, &mut self.buffer);
        }
    }
}

impl Model {
    /// Returns whether it is known what emptying a buffer leaves: while a CPU is off, its part stays.
    pub(in crate::explore) fn can_clear(&self, clears: bool) -> bool {
        !(clears && self.cpu_off)
    }

    /// Removes an instance with all that is set in it.
    fn remove_instance(&mut self, place: Place) -> Result<(), Errno> {
        self.place(place)?;
        let events: Vec<Event> = self.events(place).collect();
        for event in events {
            self.arm(place, event, |file| *file = EventFile::new())?;
            self.files.remove(&(event, place));
        }
        self.commands.retain(|(at, _, _): &(Place, Command, Function), _| *at != place);
        self.order.retain(|user| *user != User::Tracer(place));
        self.forget_commands();
        self.tracing.remove(&place);
        Ok(())
    }
}
