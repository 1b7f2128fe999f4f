//! A livepatch of a function that the workload calls, and of one of the module that comes and goes.

use super::{Family, hooks::Way};
use crate::explore::{
    draw::Draw,
    names::Function,
    state::{Errno, Model},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The module that is the livepatch.
const MODULE: &str = "livepatches";

/// Where the kernel shows its state.
const DIRECTORY: &str = "/sys/kernel/livepatch/livepatches";

/// The functions that it replaces.
const REPLACED: [Function; 2] = [Function::Read, Function::Show];

/// What the replacement of [`Function::Read`] reads.
pub(super) const VALUE: u64 = 1000;

/// Loads the livepatch and waits until all tasks use it, or disables it and unloads it once none does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) struct Livepatch(pub(in crate::explore) bool);

impl Family for Livepatch {
    const WEIGHT: usize = 3;

    fn draw(draw: &mut Draw<'_>) -> Livepatch {
        Livepatch(draw.on())
    }

    fn knows(&self, model: &Model) -> bool {
        let Livepatch(on) = *self;
        model.facts.livepatch && on != model.livepatched && (!on || model.knows_order())
    }

    /// Its ftrace_ops have IPMODIFY and PERMANENT.
    fn apply(&self, model: &mut Model) -> Result<(), Errno> {
        let Livepatch(on) = *self;
        if on {
            model.enter(Function::Load, 0);
            if model.ftrace_off || model.is_refused((None, Way::Ipmodify), &BTreeSet::from(REPLACED)) {
                return Err("EBUSY");
            }
        }
        model.livepatched = on;
        Ok(())
    }

    fn step(&self, _: &Model) -> String {
        let Livepatch(on) = *self;
        match on {
            true => format!("load: {MODULE}"),
            false => {
                let is_used = format!("! grep -q ^0 /sys/module/{MODULE}/refcnt");
                format!("sh: echo 0 >{DIRECTORY}/enabled; {}", while_true(&is_used))
            }
        }
    }

    fn further_steps(&self, model: &Model) -> Vec<String> {
        let Livepatch(on) = *self;
        match on {
            true if model.after(|model| self.apply(model)).livepatched => {
                vec![format!("sh: {}", while_true(&format!("grep -q 1 {DIRECTORY}/transition")))]
            }
            true => Vec::new(),
            false => vec![format!("unload: {MODULE}")],
        }
    }

    fn look(model: &Model) -> Vec<String> {
        let is_enabled = format!("read: {DIRECTORY}/enabled, text: {{ equal: \"1\" }}");
        Vec::from_iter(model.livepatched.then_some(is_enabled))
    }

    fn tear_down(model: &Model) -> Vec<Livepatch> {
        Vec::from_iter(model.livepatched.then_some(Livepatch(false)))
    }
}

/// A loop of the shell.
fn while_true(condition: &str) -> String {
    format!("while {condition}; do :; done")
}

impl Model {
    /// Returns whether the livepatch replaces a function.
    pub(super) fn is_livepatched(&self, function: Function) -> bool {
        self.livepatched && REPLACED.contains(&function)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::{
        facts::Facts,
        families::{
            Operation, Switches, Workload,
            hooks::{By, Flag, HookChange, Hooks},
        },
        names::{Named, Sequence},
    };

    #[test]
    fn it_modifies_the_instruction_pointer_and_keeps_ftrace_on() {
        let facts = Facts { livepatch: true, direct: true, ..Facts::default() };
        let name = Named { sequence: Sequence(0), number: 0 };
        let (on, off) = (Livepatch(true), Livepatch(false));
        let hook =
            |change| Operation::Hooks(Hooks(name, change, vec![Function::Read], (By::Name, Flag::None)));
        let mut model = Model::new(facts);
        let mut check = |operation: Operation, expect: &str| {
            assert!(operation.is_known(&model), "{operation:?}");
            assert_eq!(operation.apply(&mut model).err().unwrap_or_default(), expect, "{operation:?}");
        };
        for way in [Way::Ipmodify, Way::Direct] {
            check(hook(HookChange::Add(way)), "");
            check(Operation::Livepatch(on), "EBUSY");
            check(hook(HookChange::Remove), "");
            check(Operation::Livepatch(on), "");
            check(hook(HookChange::Add(way)), "EBUSY");
            check(Operation::Switches(Switches::Ftrace(false)), "EBUSY");
            check(Operation::Livepatch(off), "");
        }
        check(Operation::Switches(Switches::Ftrace(false)), "");
        check(Operation::Livepatch(on), "EBUSY");
        check(Operation::Switches(Switches::Ftrace(true)), "");
        check(Operation::Livepatch(on), "");
        check(hook(HookChange::Add(Way::Callback)), "");
        let step = Workload.step(&model);
        assert!(step.ends_with("read 1000 }"), "{step}");
    }
}
