//! The function tracer and its filter, at the top level and in instances.

use super::Family;
use crate::explore::{
    draw::Draw,
    names::{FUNCTIONS, Function, Place, path, write},
    state::{Errno, Model, Tracing, User},
};
use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) enum Functions {
    /// Adds a function to `set_ftrace_filter`, or removes it.
    Filter(Place, Function, bool),
    /// Selects the tracer `function` or `nop`.
    Trace(Place, bool),
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
        Functions::Filter(place, draw.one(&FUNCTIONS), on)
    }

    /// An ftrace_ops with an empty filter traces all functions.
    fn knows(&self, model: &Model) -> bool {
        match self {
            Functions::Filter(_, _, true) => true,
            Functions::Filter(place, function, false) => model.tracing.get(place).is_some_and(|at| {
                at.filter.contains(function) && (!at.traces_functions || at.filter.len() > 1)
            }),
            Functions::Trace(place, on) => model.tracing.get(place).is_some_and(|at| {
                !(*on && at.filter.is_empty()) && model.can_clear(*on != at.traces_functions)
            }),
        }
    }

    /// A new tracer begins with an empty buffer.
    fn apply(&self, model: &mut Model) -> Result<(), Errno> {
        match *self {
            Functions::Filter(place, function, true) => {
                model.place(place)?.filter.insert(function);
            }
            Functions::Filter(place, function, false) => {
                model.place(place)?.filter.remove(&function);
            }
            Functions::Trace(place, on) => {
                let at = model.place(place)?;
                if at.traces_functions == on {
                    return Ok(());
                }
                at.traces_functions = on;
                *at.buffer.entries = 0;
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
        match self {
            Functions::Filter(place, function, add) => {
                let not = if *add { "" } else { "!" };
                write(&path(*place, "set_ftrace_filter"), &format!("{not}{}", function.symbol()), true)
            }
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
            all.extend(at.filter.iter().map(|function| Functions::Filter(*place, *function, false)));
        }
        all
    }
}
