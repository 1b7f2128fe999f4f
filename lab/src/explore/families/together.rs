//! Two operations at the same moment, each on a CPU of its own.

use super::{Family, Operation, Row};
use crate::explore::{
    draw::Draw,
    names::{call, calls},
    state::{Errno, Model},
};
use serde::{Deserialize, Serialize};
use std::iter;

/// The name of this family.
const NAME: &str = "Together";

/// How often an operation is drawn until it is a call that the model knows.
const TRIES: usize = 10;

/// The files that keep a copy of what they had when they were opened.
const FILTERS: [&str; 3] = ["set_ftrace_filter", "set_graph_function", "set_graph_notrace"];

/// Two operations whose order makes no difference; doing them at once must make none either.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(in crate::explore) struct Together(pub(in crate::explore) Box<[Operation; 2]>);

impl Family for Together {
    const WEIGHT: usize = 4;

    fn draw(draw: &mut Draw<'_>) -> Together {
        // Neither consists of others.
        let is_other = |row: &Option<&Row>| row.is_none_or(|row| row.name != NAME);
        let families: Vec<_> = draw.families.iter().copied().filter(is_other).collect();
        let Draw { sequence, model, .. } = *draw;
        let mut draw = Draw { random: &mut *draw.random, sequence, model, families: &families };
        Together(Box::new([one(&mut draw), one(&mut draw)]))
    }

    fn knows(&self, model: &Model) -> bool {
        let [one, other] = &*self.0;
        let calls = (call_of(one, model), call_of(other, model));
        let (Some(call), Some(meanwhile)) = calls else { return false };
        let file = call.split(' ').nth(1);
        let is_copied = |file: &str| FILTERS.iter().any(|filter| file.ends_with(filter));
        let reverts = file == meanwhile.split(' ').nth(1) && file.is_some_and(is_copied);
        if model.cpu_off || model.facts.icount.is_some() || reverts && model.facts.known.filter_reverted {
            return false;
        }
        let turned = in_turn(model, other, one).map(|(after, [second, first])| (after, [first, second]));
        turned.is_some() && turned == in_turn(model, one, other)
    }

    /// Each has its own errno, which the workload compares.
    fn apply(&self, model: &mut Model) -> Result<(), Errno> {
        self.0.iter().for_each(|operation| _ = operation.apply(model));
        Ok(())
    }

    fn step(&self, model: &Model) -> String {
        let mut after = model.clone();
        let [one, other] = self.0.each_ref().map(|operation| {
            let call = call_of(operation, model).unwrap_or_default();
            let errno = operation.apply(&mut after).err();
            errno.map_or(call.clone(), |errno| format!("{call} = {errno}"))
        });
        calls(&format!("meet {one}\n{other}\n"))
    }
}

/// Draws an operation, again and again until it is a call.
fn one(draw: &mut Draw<'_>) -> Operation {
    let model = draw.model;
    let mut drawn = iter::repeat_with(|| draw.operation()).take(TRIES);
    let is_call = |operation: &Operation| operation.is_known(model) && call_of(operation, model).is_some();
    drawn.find(is_call).unwrap_or(Operation::Look)
}

/// Returns the call that an operation is; `None` if it is more than that.
fn call_of(operation: &Operation, model: &Model) -> Option<String> {
    match operation {
        Operation::Together(_) => None,
        // The first hook is registered by the step that loads their module.
        Operation::Hooks(_) if model.hooks.is_empty() => None,
        operation => match &operation.steps(model)[..] {
            [step] => call(step),
            _ => None,
        },
    }
}

/// Returns the state after two operations, one after the other, and what each returns; `None` if the model does not
/// know it.
fn in_turn(model: &Model, first: &Operation, second: &Operation) -> Option<(Model, [Result<(), Errno>; 2])> {
    let mut after = model.clone();
    let mut next = |operation: &Operation| {
        let known = operation.is_known(&after);
        known.then(|| operation.apply(&mut after))
    };
    let results = [next(first)?, next(second)?];
    Some((after, results))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::{
        facts::{Facts, Known},
        families::{Events, Functions, Instances, Probes, Switches, functions::GraphFilter, probes::List},
        names::{Event, Function, Named, Sequence},
        probe::{Kind, Probe},
    };

    #[test]
    fn only_what_may_come_in_either_order_is_done_at_once() {
        let sequence = Sequence(0);
        let event = Event::User(sequence, 0);
        let mut model = Model::new(Facts::default());
        let define = Operation::Probes(Probes::Define(event, Probe::placeless(Kind::User)));
        define.apply(&mut model).unwrap();
        let enable = |on| Operation::Events(Events::Enable(None, event, on));
        let make = Operation::Instances(Instances::Make(Named { sequence, number: 0 }));
        let remove = Operation::Probes(Probes::Remove(List::All, Event::User(sequence, 1)));
        let off = Operation::Switches(Switches::Ftrace(false));
        let both = |one: &Operation, other: &Operation| Together(Box::new([one.clone(), other.clone()]));
        let lines = |one: &Operation, other: &Operation| {
            let both = both(one, other);
            both.knows(&model).then(|| both.step(&model))
        };
        let expected = calls("meet mkdir instances/x0_0\necho events/user_events/x0u0/enable 1\n");
        assert_eq!(lines(&make, &enable(true)), Some(expected));
        let expected = calls(
            "meet append dynamic_events -:user_events/x0u1 u64 value = ENOENT\necho /proc/sys/kernel/ftrace_enabled 0\n",
        );
        assert_eq!(lines(&remove, &off), Some(expected));
        assert_eq!(lines(&enable(true), &enable(false)), None);
        assert_eq!(lines(&make, &make), None);
        assert_eq!(lines(&make, &Operation::Look), None);
        assert_eq!(lines(&make, &Operation::Together(both(&remove, &off))), None);
        // What one of two has written to a copy is lost where the kernel is known to do that.
        let graph = |function| Operation::Functions(Functions::Graph(GraphFilter::Only, function, true));
        let [write, read] = [Function::Write, Function::Read].map(graph);
        assert!(both(&write, &read).knows(&model));
        let known = Known { filter_reverted: true, ..Known::default() };
        assert!(!both(&write, &read).knows(&Model::new(Facts { known, ..Facts::default() })));
        // An event that is enabled is busy, one that is removed is not there.
        let gone = Operation::Probes(Probes::Remove(List::All, event));
        assert_eq!(lines(&gone, &enable(true)), None);
        model.cpu_off = true;
        assert!(!both(&make, &off).knows(&model));
    }
}
