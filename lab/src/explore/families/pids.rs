//! Which processes cause events and which calls are traced.

use super::Family;
use crate::explore::{
    draw::Draw,
    names::{Place, path, write},
    state::{Errno, Model, Tracing},
};
use serde::{Deserialize, Serialize};

/// A list of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) enum List {
    /// `set_event_pid`
    Events,
    /// `set_event_notrace_pid`
    NoEvents,
    /// `set_ftrace_pid`
    Calls,
    /// `set_ftrace_notrace_pid`
    NoCalls,
}

const LISTS: [List; 4] = [List::Events, List::NoEvents, List::Calls, List::NoCalls];

/// Lists process 1, which calls none of the functions, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) struct Pids(Place, List, bool);

impl List {
    fn file(self) -> &'static str {
        match self {
            List::Events => "set_event_pid",
            List::NoEvents => "set_event_notrace_pid",
            List::Calls => "set_ftrace_pid",
            List::NoCalls => "set_ftrace_notrace_pid",
        }
    }

    fn is_set(self, at: &Tracing) -> bool {
        match self {
            List::Events => at.ignores,
            List::NoEvents => at.ignores_agent.0,
            List::Calls => at.ignores_calls,
            List::NoCalls => at.ignores_agent.1,
        }
    }

    /// What the file shows if no process is listed.
    fn nothing(self) -> &'static str {
        match self {
            List::Events | List::NoEvents => "",
            List::Calls | List::NoCalls => "no pid",
        }
    }
}

impl Family for Pids {
    const WEIGHT: usize = 2;

    fn draw(draw: &mut Draw<'_>) -> Pids {
        Pids(draw.place(), draw.one(&LISTS), draw.on())
    }

    fn apply(&self, model: &mut Model) -> Result<(), Errno> {
        let Pids(place, list, on) = *self;
        let at = model.place(place)?;
        match list {
            List::Events => at.ignores = on,
            List::NoEvents => at.ignores_agent.0 = on,
            List::Calls => at.ignores_calls = on,
            List::NoCalls => at.ignores_agent.1 = on,
        }
        Ok(())
    }

    fn step(&self, _: &Model) -> String {
        let Pids(place, list, on) = *self;
        write(&path(place, list.file()), if on { "1" } else { "" }, false)
    }

    fn look(model: &Model) -> Vec<String> {
        let mut steps = Vec::new();
        for (place, at) in &model.tracing {
            for list in LISTS {
                let text = if list.is_set(at) { "1" } else { list.nothing() };
                // Every list that was never set would be most of a look.
                if list.is_set(at) || matches!(list, List::Calls) {
                    let file = path(*place, list.file());
                    steps.push(format!(
                        "read: {file:?}, text: {{ matches: {:?} }}",
                        format!(r"\A{text}.*\n?\z")
                    ));
                }
            }
        }
        steps
    }

    fn tear_down(model: &Model) -> Vec<Pids> {
        let set = |(place, at): (&Place, &Tracing)| {
            let lists = LISTS.into_iter().filter(|list| list.is_set(at));
            lists.map(|list| Pids(*place, list, false)).collect::<Vec<_>>()
        };
        model.tracing.iter().flat_map(set).collect()
    }
}
