//! The tracers of calls and their filter, at the top level and in instances, and the filters of the graph tracer.

use super::Family;
use crate::explore::{
    draw::Draw,
    names::{FUNCTIONS, Function, MODULE, Place, path, read_any_order, write},
    probe::Kind,
    state::{Errno, Line, Model, Tracing, User},
};
use serde::{Deserialize, Serialize};

/// What records calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) enum Tracer {
    /// Nothing.
    #[default]
    Nop,
    /// `function`: an event for each call.
    Function,
    /// `function_graph`: an event for each call, and one for each return.
    Graph,
}

impl Tracer {
    pub(super) const ALL: [Tracer; 3] = [Tracer::Nop, Tracer::Function, Tracer::Graph];

    fn name(self) -> &'static str {
        match self {
            Tracer::Nop => "nop",
            Tracer::Function => "function",
            Tracer::Graph => "function_graph",
        }
    }

    /// The names of the events of a call, in order.
    pub(in crate::explore) fn events(self) -> &'static [&'static str] {
        match self {
            Tracer::Nop => &[],
            Tracer::Function => &["function"],
            Tracer::Graph => &["funcgraph_entry", "funcgraph_exit"],
        }
    }
}

/// A filter of the graph tracer, of all places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) enum GraphFilter {
    /// `set_graph_function`: what is recorded, with what it calls.
    Only,
    /// `set_graph_notrace`: what is not.
    Not,
}

impl GraphFilter {
    const ALL: [GraphFilter; 2] = [GraphFilter::Only, GraphFilter::Not];

    fn file(self) -> &'static str {
        match self {
            GraphFilter::Only => "set_graph_function",
            GraphFilter::Not => "set_graph_notrace",
        }
    }

    /// What the file shows if it is empty.
    fn nothing(self) -> &'static str {
        match self {
            GraphFilter::Only => "#### all functions enabled ####",
            GraphFilter::Not => "#### no functions disabled ####",
        }
    }
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) enum Functions {
    /// Adds a function to `set_ftrace_filter`, or removes it.
    Filter(Place, Function, bool),
    /// The same for that of the module, which may be loaded later: the command `mod`.
    Await(Place, bool),
    /// Adds all functions of the kernel at once.
    FilterAll(Place),
    /// Empties `set_ftrace_filter`.
    Reset(Place),
    /// Selects a tracer.
    Trace(Place, Tracer),
    /// Adds a function to a filter of the graph tracer, or removes it.
    Graph(GraphFilter, Function, bool),
    /// Empties one.
    ResetGraph(GraphFilter),
}

/// The function of the module, as it is written and listed while that is not loaded.
pub(super) fn awaited() -> String {
    format!("{}:mod:{MODULE}", Function::Show.symbol())
}

impl Family for Functions {
    const WEIGHT: usize = 12;

    fn draw(draw: &mut Draw<'_>) -> Functions {
        let (place, on, function) = (draw.place(), draw.on(), draw.function());
        let at = draw.model.tracing.get(&place);
        // A tracer needs a filter, and its own filters need the graph tracer.
        let (has_filter, tracer) = at.map_or_else(Default::default, |at| (!at.has_no_filter(), at.tracer));
        let begins = has_filter && tracer == Tracer::Nop;
        if draw.rarely(if begins { 2 } else { 5 }) {
            let all = &Tracer::ALL;
            return Functions::Trace(place, draw.one(if begins { &all[1..] } else { all }));
        }
        if draw.rarely(if tracer == Tracer::Graph { 2 } else { 8 }) {
            let filter = draw.one(&GraphFilter::ALL);
            let reset = draw.rarely(6);
            return if reset {
                Functions::ResetGraph(filter)
            } else {
                Functions::Graph(filter, function, on)
            };
        }
        match draw.random.u8(..8) {
            0 => Functions::Reset(place),
            1 | 2 => Functions::Await(place, on),
            3 | 4 => Functions::FilterAll(place),
            _ => Functions::Filter(place, function, on || !has_filter),
        }
    }

    /// An ftrace_ops with an empty filter traces all functions. A filter of the graph tracer keeps what was of the module
    /// (`bugs/graph-filter-module`).
    fn knows(&self, model: &Model) -> bool {
        let at = |place| model.tracing.get(&place);
        let keeps = |place| {
            let after = model.after(|model| self.apply(model));
            after.tracing.get(&place).is_some_and(|at| at.tracer == Tracer::Nop || !at.has_no_filter())
        };
        match *self {
            Functions::Filter(_, _, true) | Functions::FilterAll(_) | Functions::Await(_, true) => true,
            Functions::Filter(place, function, false) => {
                at(place).is_some_and(|at| at.filter.contains(&function)) && keeps(place)
            }
            Functions::Await(place, false) | Functions::Reset(place) => keeps(place),
            Functions::Trace(place, tracer) => at(place).is_some_and(|at| {
                (tracer == Tracer::Nop || !at.has_no_filter()) && model.can_clear(tracer != at.tracer)
            }),
            Functions::Graph(_, function, _) => function != Function::Show || !model.keys.is_loaded(),
            Functions::ResetGraph(_) => true,
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
            Functions::FilterAll(place) => model.place(place)?.filter.extend(FUNCTIONS),
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
            Functions::Trace(place, tracer) => {
                let everywhere = model.facts.graph_instances;
                let at = model.place(place)?;
                if at.tracer == tracer {
                    return Ok(());
                }
                if tracer == Tracer::Graph && place.is_some() && !everywhere {
                    return Err("EINVAL");
                }
                at.tracer = tracer;
                at.restart();
                let user = User::Tracer(place);
                model.order.retain(|other| *other != user);
                if tracer != Tracer::Nop {
                    model.order.insert(0, user);
                }
            }
            Functions::Graph(filter, function, on) => {
                if function == Function::Show || !on && !model.graph_filters.remove(&(filter, function)) {
                    return Err("EINVAL");
                }
                if on {
                    model.graph_filters.insert((filter, function));
                }
            }
            Functions::ResetGraph(filter) => model.graph_filters.retain(|(other, _)| *other != filter),
        }
        Ok(())
    }

    fn step(&self, _: &Model) -> String {
        let append = |file: &str, on: bool, text: &str| {
            let not = if on { "" } else { "!" };
            write(file, &format!("{not}{text}"), true)
        };
        let filter = |place: Place| path(place, "set_ftrace_filter");
        match *self {
            Functions::Filter(place, function, on) => append(&filter(place), on, function.symbol()),
            Functions::FilterAll(place) => {
                append(&filter(place), true, &FUNCTIONS.map(Function::symbol).join(" "))
            }
            Functions::Await(place, on) => append(&filter(place), on, &awaited()),
            Functions::Reset(place) => write(&filter(place), "", false),
            Functions::Trace(place, tracer) => write(&path(place, "current_tracer"), tracer.name(), false),
            Functions::Graph(filter, function, on) => append(filter.file(), on, function.symbol()),
            Functions::ResetGraph(filter) => write(filter.file(), "", false),
        }
    }

    fn look(model: &Model) -> Vec<String> {
        let step = |(place, at): (&Place, &Tracing)| {
            let file = path(*place, "current_tracer");
            format!("read: {file:?}, text: {{ equal: {} }}", at.tracer.name())
        };
        let listed = |filter: GraphFilter| {
            let mut lines: Vec<String> = model.graph_filter(filter).map(Function::listed).collect();
            if lines.is_empty() {
                lines.push(filter.nothing().to_owned());
            }
            read_any_order(filter.file(), &lines)
        };
        // Where nobody records a graph, two more files would be a tenth of a look.
        let uses_graph = !model.graph_filters.is_empty() || model.has_graph();
        let filters = GraphFilter::ALL.into_iter().filter(|_| uses_graph).map(listed);
        model.tracing.iter().map(step).chain(filters).collect()
    }

    fn tear_down(model: &Model) -> Vec<Functions> {
        let mut all = Vec::new();
        for (place, at) in &model.tracing {
            if at.tracer != Tracer::Nop {
                all.push(Functions::Trace(*place, Tracer::Nop));
            }
            all.extend((!at.has_no_filter()).then_some(Functions::Reset(*place)));
        }
        let used = GraphFilter::ALL.into_iter().filter(|filter| model.graph_filter(*filter).next().is_some());
        all.extend(used.map(Functions::ResetGraph));
        all
    }
}

impl Model {
    /// Returns whether a place records a graph.
    pub(super) fn has_graph(&self) -> bool {
        self.tracing.values().any(|at| at.tracer == Tracer::Graph)
    }

    /// Returns whether the kernel is known to do otherwise than it should with the graph tracers that there are.
    pub(super) fn breaks_graph(&self) -> bool {
        let known = self.facts.known;
        let graphs = || self.tracing.values().filter(|at| at.tracer == Tracer::Graph);
        let at_return = |line: &Line| line.probe.kind == Kind::Fexit && self.is_armed(line.event);
        known.graph_returns && graphs().count() > 1
            || known.graph_mod && graphs().any(|at| at.filter.is_empty())
            || known.fprobe_graph && graphs().count() > 0 && self.lines.iter().any(at_return)
    }

    /// Returns the functions in a filter of the graph tracer.
    fn graph_filter(&self, filter: GraphFilter) -> impl Iterator<Item = Function> {
        self.graph_filters.iter().filter(move |(other, _)| *other == filter).map(|(_, function)| *function)
    }

    /// Returns whether a tracer records the calls of a function that is in its place's filter.
    pub(super) fn is_recorded(&self, tracer: Tracer, function: Function) -> bool {
        let has = |filter| self.graph_filters.contains(&(filter, function));
        let all = self.graph_filter(GraphFilter::Only).next().is_none();
        tracer != Tracer::Graph || (all || has(GraphFilter::Only)) && !has(GraphFilter::Not)
    }
}
