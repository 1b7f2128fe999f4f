//! The families of operations. Each has its own file; one row of the table below adds it.

pub(super) mod commands;
mod cpus;
mod events;
pub(super) mod functions;
pub(super) mod hooks;
pub(super) mod instances;
pub(super) mod keys;
mod lanes;
mod livepatches;
mod pids;
pub(super) mod probes;
pub(super) mod readers;
mod switches;
mod together;
pub(super) mod triggers;
mod workload;

use super::{
    draw::Draw,
    state::{Errno, Model},
};
use serde::{Deserialize, Serialize};
use std::{cell::LazyCell, slice};

pub(super) use self::{
    commands::Commands, cpus::Cpus, events::Events, functions::Functions, hooks::Hooks, instances::Instances,
    keys::KeyChange, lanes::Lane, livepatches::Livepatch, pids::Pids, probes::Probes, readers::Readers,
    switches::Switches, together::Together, triggers::Triggers, workload::Workload,
};

/// Operations that belong together.
pub(super) trait Family: Sized {
    /// How often one is drawn, in relation to the others.
    const WEIGHT: usize;

    /// Whether every sequence may have them. Of the other families, each sequence has some only.
    const ALWAYS: bool = false;

    /// Returns a random operation. The model need not know it.
    fn draw(draw: &mut Draw<'_>) -> Self;

    /// Returns whether the model knows what the operation does in this state.
    fn knows(&self, _model: &Model) -> bool {
        true
    }

    /// Applies the operation.
    ///
    /// # Errors
    /// Returns the errno that the kernel must return.
    fn apply(&self, model: &mut Model) -> Result<(), Errno>;

    /// Returns the step that does it in this state, without its errno.
    fn step(&self, model: &Model) -> String;

    /// Returns the steps that it takes after this one.
    fn further_steps(&self, _model: &Model) -> Vec<String> {
        Vec::new()
    }

    /// Returns the steps that compare what the kernel shows with the model.
    fn look(_model: &Model) -> Vec<String> {
        Vec::new()
    }

    /// Returns the operations that remove what there is, so that the later families of the table can.
    fn tear_down(_model: &Model) -> Vec<Self> {
        Vec::new()
    }
}

/// A family's row in the table.
pub(super) struct Row {
    /// Its name.
    pub(super) name: &'static str,
    /// See [`Family::WEIGHT`].
    pub(super) weight: usize,
    /// See [`Family::ALWAYS`].
    pub(super) always: bool,
    /// See [`Family::draw`].
    pub(super) draw: fn(&mut Draw<'_>) -> Operation,
    /// See [`Family::look`].
    pub(super) look: fn(&Model) -> Vec<String>,
    /// See [`Family::tear_down`].
    pub(super) tear_down: fn(&Model) -> Vec<Operation>,
}

macro_rules! families {
    ($($(#[$doc:meta])* $family:ident($operation:ty),)*) => {
        /// One operation.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub(super) enum Operation {
            $($(#[$doc])* $family($operation),)*
            /// Compares all that the kernel shows with the model.
            Look,
        }

        impl Operation {
            /// See [`Family::knows`].
            pub(super) fn is_known(&self, model: &Model) -> bool {
                let knows = match self {
                    $(Operation::$family(operation) => operation.knows(model),)*
                    Operation::Look => true,
                };
                let after = LazyCell::new(|| model.after(|model| self.apply(model)));
                let known = model.facts.known;
                knows
                    && !(known.eprobe_instance && after.has_eprobe_twice())
                    && !(known.is_of_graph() && after.breaks_graph())
                    && !model.unarmable().any(|event| !model.is_armed(event) && after.is_armed(event))
            }

            /// See [`Family::apply`].
            pub(super) fn apply(&self, model: &mut Model) -> Result<(), Errno> {
                match self {
                    $(Operation::$family(operation) => operation.apply(model),)*
                    Operation::Look => Ok(()),
                }
            }

            /// Applies it if the model knows what it does, and returns whether it does.
            pub(super) fn apply_known(&self, model: &mut Model) -> bool {
                let known = self.is_known(model);
                if known {
                    // The errno is asked for again when the operations become a scenario.
                    let _ = self.apply(model);
                }
                known
            }

            /// Returns the operations of which it consists.
            pub(super) fn parts(&self) -> &[Operation] {
                match self {
                    Operation::Together(Together(parts)) => &**parts,
                    other => slice::from_ref(other),
                }
            }

            /// Returns the steps that do it in this state, without an errno.
            pub(super) fn steps(&self, model: &Model) -> Vec<String> {
                match self {
                    $(Operation::$family(operation) => {
                        [vec![operation.step(model)], operation.further_steps(model)].concat()
                    })*
                    Operation::Look => ROWS.iter().flat_map(|row| (row.look)(model)).collect(),
                }
            }
        }

        /// All families, in an order in which what they made can be removed.
        pub(super) const ROWS: &[Row] = &[$(Row {
            name: stringify!($family),
            weight: <$operation>::WEIGHT,
            always: <$operation>::ALWAYS,
            draw: |draw| Operation::$family(<$operation>::draw(draw)),
            look: <$operation>::look,
            tear_down: |model| {
                <$operation>::tear_down(model).into_iter().map(Operation::$family).collect()
            },
        },)*];
    };
}

families! {
    /// All kprobes disarmed, ftrace off.
    Switches(Switches),
    /// CPUs taken off and on.
    Cpus(Cpus),
    /// The function tracer and its filter.
    Functions(Functions),
    /// Commands in `set_ftrace_filter`.
    Commands(Commands),
    /// Which processes are traced.
    Pids(Pids),
    /// Hooks.
    Hooks(Hooks),
    /// A livepatch.
    Livepatch(Livepatch),
    /// Triggers of events.
    Triggers(Triggers),
    /// Events enabled, disabled and filtered.
    Events(Events),
    /// Files that are open meanwhile.
    Readers(Readers),
    /// Tracing instances.
    Instances(Instances),
    /// Probe events.
    Probes(Probes),
    /// Static keys, and the module that has them.
    Keys(KeyChange),
    /// Two of the others at once.
    Together(Together),
    /// Somebody else.
    Lanes(Lane),
    /// What causes events.
    Workload(Workload),
}

/// Returns the operations that remove all that there is, in an order that the kernel accepts.
pub(super) fn tear_down(model: &Model) -> Vec<Operation> {
    ROWS.iter().flat_map(|row| (row.tear_down)(model)).collect()
}
