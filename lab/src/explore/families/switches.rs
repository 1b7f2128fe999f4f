//! All kprobes disarmed and armed again, ftrace off and on again.

use super::Family;
use crate::explore::{
    draw::Draw,
    names::{switch, write},
    state::{Errno, Model},
};
use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) enum Switches {
    /// Arms or disarms all kprobes at once.
    Kprobes(bool),
    /// Turns ftrace on or off as a whole.
    Ftrace(bool),
}

impl Family for Switches {
    const WEIGHT: usize = 2;

    fn draw(draw: &mut Draw<'_>) -> Switches {
        let on = draw.random.bool();
        draw.one(&[Switches::Kprobes(on), Switches::Ftrace(on)])
    }

    fn apply(&self, model: &mut Model) -> Result<(), Errno> {
        match self {
            Switches::Kprobes(on) => model.disarmed = !on,
            Switches::Ftrace(false) if model.facts.ftrace_stays => return Err("EOPNOTSUPP"),
            Switches::Ftrace(false) if model.has_permanent() => return Err("EBUSY"),
            Switches::Ftrace(on) => model.ftrace_off = !on,
        }
        Ok(())
    }

    fn step(&self, _: &Model) -> String {
        let (file, on) = match self {
            Switches::Kprobes(on) => ("/sys/kernel/debug/kprobes/enabled", on),
            Switches::Ftrace(on) => ("/proc/sys/kernel/ftrace_enabled", on),
        };
        write(file, switch(*on), false)
    }

    fn tear_down(model: &Model) -> Vec<Switches> {
        let all = [(model.disarmed, Switches::Kprobes(true)), (model.ftrace_off, Switches::Ftrace(true))];
        all.into_iter().filter(|(off, _)| *off).map(|(_, operation)| operation).collect()
    }
}

impl Model {
    /// Returns whether an ftrace_ops is registered that keeps ftrace on.
    fn has_permanent(&self) -> bool {
        self.livepatched || self.hooks.values().any(|hook| hook.registered && hook.permanent)
    }
}
