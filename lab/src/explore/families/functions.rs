//! The function tracer and its filter, at the top level and in instances.

use super::Family;
use crate::explore::{
    draw::Draw,
    names::{Function, MODULE, Place, path, write},
    state::{Errno, Model, Tracing, User},
};
use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) enum Functions {
    /// Adds a function to `set_ftrace_filter`, or removes it.
    Filter(Place, Function, bool),
    /// The same for that of the module, which may be loaded later: the command `mod`.
    Await(Place, bool),
    /// Empties `set_ftrace_filter`.
    Reset(Place),
    /// Selects the tracer `function` or `nop`.
    Trace(Place, bool),
}

/// The function of the module, as it is written and listed while that is not loaded.
pub(super) fn awaited() -> String {
    format!("{}:mod:{MODULE}", Function::Show.symbol())
}

fn tracer(on: bool) -> &'static str {
    if on { "function" } else { "nop" }
}

impl Family for Functions {
    const WEIGHT: usize = 5;

    fn draw(draw: &mut Draw<'_>) -> Functions {
        let (place, on) = (draw.place(), draw.on());
        if draw.rarely(3) {
            return Functions::Trace(place, on);
        }
        match draw.random.u8(..8) {
            0 => Functions::Reset(place),
            1 | 2 => Functions::Await(place, on),
            _ => Functions::Filter(place, draw.function(), on),
        }
    }

    /// An ftrace_ops with an empty filter traces all functions.
    fn knows(&self, model: &Model) -> bool {
        let at = |place| model.tracing.get(&place);
        let keeps = |place| {
            let after = model.after(|model| self.apply(model));
            after.tracing.get(&place).is_some_and(|at| !(at.traces_functions && at.has_no_filter()))
        };
        match *self {
            Functions::Filter(_, _, true) | Functions::Await(_, true) => true,
            Functions::Filter(place, function, false) => {
                at(place).is_some_and(|at| at.filter.contains(&function)) && keeps(place)
            }
            Functions::Await(place, false) | Functions::Reset(place) => keeps(place),
            Functions::Trace(place, on) => at(place)
                .is_some_and(|at| !(on && at.has_no_filter()) && model.can_clear(on != at.traces_functions)),
        }
    }

    /// A new tracer begins with an empty buffer.
    fn apply(&self, model: &mut Model) -> Result<(), Errno> {
        match *self {
            Functions::Filter(place, function, on) => {
                let is_loaded = model.keys.is_loaded();
                let filter = &mut model.place(place)?.filter;
                if function == Function::Show && !is_loaded {
                    return Err("EINVAL");
                }
                if on {
                    filter.insert(function);
                } else {
                    filter.remove(&function);
                }
            }
            Functions::Await(place, on) => {
                if model.keys.is_loaded() {
                    return Functions::Filter(place, Function::Show, on).apply(model);
                }
                let at = model.place(place)?;
                if !on && at.awaits == 0 {
                    return Err("EINVAL");
                }
                at.awaits = if on { at.awaits + 1 } else { 0 };
            }
            Functions::Reset(place) => {
                let at = model.place(place)?;
                at.filter.clear();
                (at.awaits, at.was_gone) = (0, false);
            }
            Functions::Trace(place, on) => {
                let at = model.place(place)?;
                if at.traces_functions == on {
                    return Ok(());
                }
                at.traces_functions = on;
                at.restart();
                let user = User::Tracer(place);
                if on {
                    model.order.insert(0, user);
                } else {
                    model.order.retain(|other| *other != user);
                }
            }
        }
        Ok(())
    }

    fn step(&self, _: &Model) -> String {
        let append = |place: &Place, on: bool, text: &str| {
            let not = if on { "" } else { "!" };
            write(&path(*place, "set_ftrace_filter"), &format!("{not}{text}"), true)
        };
        match self {
            Functions::Filter(place, function, on) => append(place, *on, function.symbol()),
            Functions::Await(place, on) => append(place, *on, &awaited()),
            Functions::Reset(place) => write(&path(*place, "set_ftrace_filter"), "", false),
            Functions::Trace(place, on) => write(&path(*place, "current_tracer"), tracer(*on), false),
        }
    }

    fn look(model: &Model) -> Vec<String> {
        let step = |(place, at): (&Place, &Tracing)| {
            let file = path(*place, "current_tracer");
            format!("read: {file:?}, text: {{ equal: {} }}", tracer(at.traces_functions))
        };
        model.tracing.iter().map(step).collect()
    }

    fn tear_down(model: &Model) -> Vec<Functions> {
        let mut all = Vec::new();
        for (place, at) in &model.tracing {
            if at.traces_functions {
                all.push(Functions::Trace(*place, false));
            }
            all.extend((!at.has_no_filter()).then_some(Functions::Reset(*place)));
        }
        all
    }
}
