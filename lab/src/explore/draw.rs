//! Random choices within a sequence.

use super::{
    families::{Operation, Row},
    names::{Event, FUNCTIONS, Function, Named, Place, Sequence},
    state::Model,
};
use fastrand::Rng;

/// The numbers of events, instances and hooks of a sequence. Few, so that they meet.
const EVENTS: u8 = 2;
const INSTANCES: u8 = 2;
const HOOKS: u8 = 3;

/// Random choices in a state.
pub(super) struct Draw<'a> {
    pub(super) random: &'a mut Rng,
    pub(super) sequence: Sequence,
    pub(super) model: &'a Model,
    /// The families that the sequence draws from.
    pub(super) families: &'a [Option<&'static Row>],
}

impl Draw<'_> {
    /// One of several.
    pub(super) fn one<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.random.usize(..all.len())]
    }

    /// An operation of one of the families, or a look.
    pub(super) fn operation(&mut self) -> Operation {
        let family = self.one(self.families);
        family.map_or(Operation::Look, |row| (row.draw)(self))
    }

    /// True twice as often as false, so that there is something to undo.
    pub(super) fn on(&mut self) -> bool {
        self.random.u8(..3) > 0
    }

    /// True once in `often` times.
    pub(super) fn rarely(&mut self, often: u8) -> bool {
        self.random.u8(..often) == 0
    }

    /// An event of probes of the sequence, which may exist or not.
    pub(super) fn probes(&mut self) -> Event {
        Event::Probes(self.sequence, self.random.u8(..EVENTS))
    }

    /// A synthetic event of the sequence, which may exist or not.
    pub(super) fn synthetic(&mut self) -> Event {
        Event::Synthetic(self.sequence, self.random.u8(..EVENTS))
    }

    /// A user event of the sequence, which may exist or not.
    pub(super) fn user(&mut self) -> Event {
        Event::User(self.sequence, self.random.u8(..EVENTS))
    }

    /// An event of any kind: mostly one that exists, and else one that may exist or not.
    pub(super) fn event(&mut self) -> Event {
        let exists = Vec::from_iter(self.model.events(None));
        if !exists.is_empty() && !self.rarely(4) {
            self.one(&exists)
        } else if self.model.facts.syscalls && self.rarely(4) {
            Event::Syscall
        } else if self.model.facts.synthetic && self.rarely(4) {
            self.synthetic()
        } else if self.model.facts.user_events && self.rarely(6) {
            self.user()
        } else {
            self.probes()
        }
    }

    /// A function of the kernel, or sometimes of the module.
    pub(super) fn function(&mut self) -> Function {
        if self.rarely(4) { Function::Show } else { self.one(&FUNCTIONS) }
    }

    /// A name for an instance.
    pub(super) fn instance(&mut self) -> Named {
        Named { sequence: self.sequence, number: self.random.u8(..INSTANCES) }
    }

    /// A name for a hook.
    pub(super) fn hook(&mut self) -> Named {
        Named { sequence: self.sequence, number: self.random.u8(..HOOKS) }
    }

    /// A place that exists, or sometimes one that does not.
    pub(super) fn place(&mut self) -> Place {
        let instance = self.instance();
        let chosen = self.model.has_instance(instance) || self.rarely(20);
        (chosen && self.random.bool()).then_some(instance)
    }
}
