//! Random sequences of operations, guided towards what was not tried yet.

use super::{
    model::kinds,
    operation::{
        Arguments, Event, FUNCTIONS, Filter, HookChange, List, Named, Operation, Place, Probe, Tracer,
    },
    shape::Shape,
    state::{Known, Model},
};
use fastrand::Rng;
use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    iter,
};

/// The number of operations of a sequence, without looks and the removal at its end.
pub const OPERATIONS: usize = 10;

/// The number of operations to choose from at each point: the one least often tried in such a state is taken.
const CANDIDATES: usize = 6;

/// The numbers of events, instances and hooks of a sequence. Few, so that they meet.
const EVENTS: u8 = 2;
const INSTANCES: u8 = 2;
const HOOKS: u8 = 3;

/// The classes of operations.
#[derive(Clone, Copy, Debug)]
enum Class {
    Define,
    Remove,
    RemoveAt,
    Truncate,
    Enable,
    EnableGroup,
    Filter,
    Histogram,
    Instance,
    Clear,
    Record,
    Hook,
    FunctionFilter,
    Tracer,
    PidFilter,
    ArmKprobes,
    Ftrace,
    Work,
    Look,
}

/// All of them, with how often each is drawn.
const CLASSES: [(Class, usize); 19] = [
    (Class::Define, 6),
    (Class::Remove, 2),
    (Class::RemoveAt, 2),
    (Class::Truncate, 1),
    (Class::Enable, 6),
    (Class::EnableGroup, 1),
    (Class::Filter, 3),
    (Class::Histogram, 3),
    (Class::Instance, 2),
    (Class::Clear, 1),
    (Class::Record, 1),
    (Class::Hook, 8),
    (Class::FunctionFilter, 3),
    (Class::Tracer, 2),
    (Class::PidFilter, 1),
    (Class::ArmKprobes, 1),
    (Class::Ftrace, 1),
    (Class::Work, 3),
    (Class::Look, 1),
];

/// What sequences depend on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts {
    /// Whether the kernel has fprobe events.
    pub(super) fprobes: bool,
    /// What the kernel is known to do otherwise.
    pub(super) known: Known,
}

impl Facts {
    /// The state before the first operation.
    pub(super) fn model(self) -> Model {
        Model { known: self.known, ..Model::default() }
    }
}

/// Makes sequences.
pub(super) struct Chooser {
    random: Rng,
    facts: Facts,
    /// How often an operation was chosen in a state, by the hash of both.
    tried: HashMap<u64, u32>,
    sequences: u16,
}

impl Chooser {
    /// `seed` determines all sequences.
    pub(super) fn new(seed: u64, facts: Facts) -> Chooser {
        Chooser { random: Rng::with_seed(seed), facts, tried: HashMap::new(), sequences: 0 }
    }

    /// Returns the number of different pairs of a state and an operation so far.
    pub(super) fn pairs(&self) -> usize {
        self.tried.len()
    }

    /// Returns the next sequence. It removes at its end what it has made.
    pub(super) fn sequence(&mut self) -> Vec<Operation> {
        let number = self.sequences;
        // Their events need different names only within a scenario.
        self.sequences = self.sequences.wrapping_add(1);
        let classes = self.classes();
        let mut model = self.facts.model();
        let mut chosen = Vec::new();
        let mut left = 4 * OPERATIONS;
        while chosen.len() < OPERATIONS && left > 0 {
            left -= 1;
            let shape = model.shape();
            let candidates: Vec<Operation> =
                (0..CANDIDATES).map(|_| self.candidate(number, &model, &classes)).collect();
            let known = candidates.into_iter().filter(|operation| model.knows(operation));
            let least = known.min_by_key(|operation| self.tried.get(&pair(&shape, operation)).copied());
            let Some(operation) = least else { continue };
            *self.tried.entry(pair(&shape, &operation)).or_default() += 1;
            // The errno is asked for again when the sequence becomes a scenario.
            let _ = model.apply(&operation);
            chosen.push(operation);
        }
        chosen.extend([Operation::Work, Operation::Look]);
        chosen.extend(model.tear_down());
        chosen.push(Operation::Look);
        chosen
    }

    fn candidate(&mut self, sequence: u16, model: &Model, classes: &[Class]) -> Operation {
        let event = Event { sequence, number: self.random.u8(..EVENTS) };
        let on = self.random.u8(..3) > 0;
        let place = self.place(sequence, model);
        match self.one(classes) {
            Class::Define => Operation::Define(event, self.probe()),
            Class::Remove => Operation::Remove(self.one(&[List::Kprobes, List::All]), event),
            Class::RemoveAt => Operation::RemoveAt(event, self.one(&FUNCTIONS)),
            Class::Truncate => Operation::Truncate(self.one(&[List::Kprobes, List::All])),
            Class::Enable => Operation::Enable(place, event, on),
            Class::EnableGroup => Operation::EnableGroup(place, sequence, on),
            Class::Filter => {
                let filters = [Filter::Clear, Filter::Above, Filter::Either, Filter::Malformed];
                Operation::Filter(place, event, self.one(&filters))
            }
            Class::Histogram => Operation::Histogram(place, event, on),
            Class::Instance if on => Operation::MakeInstance(self.instance(sequence)),
            Class::Instance => Operation::RemoveInstance(self.instance(sequence)),
            Class::Clear => Operation::Clear(self.instance(sequence)),
            Class::Record => Operation::Record(self.instance(sequence), !on),
            Class::Hook => self.hook(sequence),
            Class::FunctionFilter => Operation::FunctionFilter(place, self.one(&FUNCTIONS), on),
            Class::Tracer => Operation::Tracer(place, if on { Tracer::Function } else { Tracer::Nop }),
            Class::PidFilter => Operation::PidFilter(place, on),
            Class::ArmKprobes => Operation::ArmKprobes(self.random.bool()),
            Class::Ftrace => Operation::Ftrace(self.random.bool()),
            Class::Work => Operation::Work,
            Class::Look => Operation::Look,
        }
    }

    /// The classes that a sequence draws from, each as often as its weight. Some are left out, others in each
    /// sequence, so that the rest meet more often.
    fn classes(&mut self) -> Vec<Class> {
        let mut classes = Vec::new();
        for (class, weight) in CLASSES {
            let is_needed = matches!(class, Class::Define | Class::Enable | Class::Work);
            if is_needed || self.random.u8(..5) < 2 {
                classes.extend(iter::repeat_n(class, weight));
            }
        }
        classes
    }

    fn one<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.random.usize(..all.len())]
    }

    fn probe(&mut self) -> Probe {
        Probe {
            kind: self.one(kinds(self.facts.fprobes)),
            function: self.one(&FUNCTIONS),
            arguments: self.one(&[Arguments::None, Arguments::Own, Arguments::Own, Arguments::Immediate]),
        }
    }

    fn instance(&mut self, sequence: u16) -> Named {
        Named { sequence, number: self.random.u8(..INSTANCES) }
    }

    /// A place that exists, or sometimes one that does not.
    fn place(&mut self, sequence: u16, model: &Model) -> Place {
        let instance = self.instance(sequence);
        let chosen = model.instances.contains_key(&instance) || self.random.u8(..20) == 0;
        (chosen && self.random.bool()).then_some(instance)
    }

    fn hook(&mut self, sequence: u16) -> Operation {
        let name = Named { sequence, number: self.random.u8(..HOOKS) };
        let changes = [
            HookChange::Add { ipmodify: false },
            HookChange::Add { ipmodify: true },
            HookChange::Remove,
            HookChange::Widen,
            HookChange::Narrow,
            HookChange::Enable,
            HookChange::Disable,
        ];
        let change = self.one(&changes);
        let functions = match change {
            HookChange::Add { ipmodify: true } if self.random.u8(..8) == 0 => Vec::new(),
            HookChange::Add { .. } if self.random.bool() => FUNCTIONS.to_vec(),
            HookChange::Add { .. } | HookChange::Widen | HookChange::Narrow => vec![self.one(&FUNCTIONS)],
            _ => Vec::new(),
        };
        Operation::Hook(name, change, functions)
    }
}

/// The hash of a state and an operation in it. It must be the same in every sequence, so names do not count.
fn pair(shape: &Shape, operation: &Operation) -> u64 {
    let mut hasher = DefaultHasher::new();
    shape.hash(&mut hasher);
    anonymous(operation).hash(&mut hasher);
    hasher.finish()
}

/// The operation as one of sequence 0.
fn anonymous(operation: &Operation) -> Operation {
    let event = |event: &Event| Event { sequence: 0, ..*event };
    let named = |name: &Named| Named { sequence: 0, ..*name };
    let place = |place: &Place| place.as_ref().map(named);
    match operation {
        Operation::Define(name, probe) => Operation::Define(event(name), *probe),
        Operation::Remove(list, name) => Operation::Remove(*list, event(name)),
        Operation::Enable(at, name, on) => Operation::Enable(place(at), event(name), *on),
        Operation::EnableGroup(at, _, on) => Operation::EnableGroup(place(at), 0, *on),
        Operation::Filter(at, name, filter) => Operation::Filter(place(at), event(name), *filter),
        Operation::Histogram(at, name, add) => Operation::Histogram(place(at), event(name), *add),
        Operation::MakeInstance(name) => Operation::MakeInstance(named(name)),
        Operation::RemoveInstance(name) => Operation::RemoveInstance(named(name)),
        Operation::Record(name, on) => Operation::Record(named(name), *on),
        Operation::Clear(name) => Operation::Clear(named(name)),
        Operation::Hook(name, change, functions) => Operation::Hook(named(name), *change, functions.clone()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_determines_all_sequences() {
        let all = |seed| {
            let mut chooser = Chooser::new(seed, Facts { fprobes: true, ..Facts::default() });
            (0..20).map(|_| chooser.sequence()).collect::<Vec<_>>()
        };
        assert_eq!(all(1), all(1));
        assert_ne!(all(1), all(2));
    }

    #[test]
    fn sequences_leave_nothing_and_reach_much() {
        let mut chooser = Chooser::new(3, Facts::default());
        for _ in 0..500 {
            let mut model = Model::default();
            for operation in chooser.sequence() {
                assert!(model.knows(&operation), "{operation:?}");
                let _ = model.apply(&operation);
            }
            assert_eq!(model.shape(), Model::default().shape());
        }
        // Guidance avoids repetitions: most choices are new.
        assert!(chooser.pairs() > 3000, "{}", chooser.pairs());
    }
}
