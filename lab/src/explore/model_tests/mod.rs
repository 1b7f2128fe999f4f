//! What the model predicts, as tables.

mod events;
mod functions;
mod instances;
mod probes;

use super::{
    facts::Facts,
    families::{
        Commands, Events, Functions, Hooks, Instances, Operation, Probes, Triggers, Workload,
        commands::Command,
        functions::Tracer,
        hooks::{By, Flag, HookChange, Way},
        tear_down,
        triggers::{Action, Spec},
    },
    filter::Filter,
    names::{Event, Function, Named, Place, Sequence},
    probe::{Arguments, Kind, Probe},
    state::Model,
};

const SEQUENCE: Sequence = Sequence(0);
const EVENT: Event = Event::Probes(SEQUENCE, 0);
const OTHER: Event = Event::Probes(SEQUENCE, 1);
const ONE: Named = Named { sequence: SEQUENCE, number: 0 };
const TWO: Named = Named { sequence: SEQUENCE, number: 1 };
const WORK: Operation = Operation::Workload(Workload);

fn define(event: Event, kind: Kind, function: Function, arguments: Arguments) -> Operation {
    Operation::Probes(Probes::Define(event, Probe { kind, function, arguments }))
}

/// A kprobe of `eventfd_write` that records its values.
fn writes(event: Event) -> Operation {
    define(event, Kind::Kprobe, Function::Write, Arguments::Own)
}

fn reads(event: Event) -> Operation {
    define(event, Kind::Kprobe, Function::Read, Arguments::Own)
}

fn enable(place: Place, event: Event, on: bool) -> Operation {
    Operation::Events(Events::Enable(place, event, on))
}

fn filter(place: Place, event: Event, filter: Filter) -> Operation {
    Operation::Events(Events::Filter(place, event, filter))
}

fn make(name: Named) -> Operation {
    Operation::Instances(Instances::Make(name))
}

fn hook(name: Named, change: HookChange, functions: &[Function]) -> Operation {
    Operation::Hooks(Hooks(name, change, functions.to_vec(), (By::Name, Flag::None)))
}

fn trigger(place: Place, event: Event, action: Action, count: Option<u32>, filter: Filter) -> Operation {
    Operation::Triggers(Triggers::Add(place, event, Spec { action, target: OTHER, count, filter }))
}

fn command(place: Place, function: Function, action: Action, count: Option<u32>) -> Operation {
    let command = Command { action, is_counted: count.is_some() };
    Operation::Commands(Commands::Add(place, function, command, EVENT, count.unwrap_or(1)))
}

/// Applies operations, each with the errno that it must get, "" for none.
fn applied_to(mut model: Model, operations: &[(Operation, &str)]) -> Model {
    for (operation, expect) in operations {
        assert!(operation.is_known(&model), "{operation:?}");
        assert_eq!(operation.apply(&mut model).err().unwrap_or_default(), *expect, "{operation:?}");
    }
    model
}

fn applied(operations: &[(Operation, &str)]) -> Model {
    applied_to(Model::new(Facts { offsets: Some([1, 2]), ..Facts::default() }), operations)
}

fn entries(model: &Model, name: Named) -> u64 {
    model.tracing[&Some(name)].buffer.shown()
}

#[test]
fn nothing_is_left_after_tearing_down() {
    let mut model = applied(&[
        (make(ONE), ""),
        (writes(EVENT), ""),
        (reads(OTHER), ""),
        (enable(Some(ONE), EVENT, true), ""),
        (trigger(Some(ONE), EVENT, Action::Histogram, None, Filter::Clear), ""),
        (trigger(None, EVENT, Action::Enable, Some(2), Filter::Clear), ""),
        (hook(ONE, HookChange::Add(Way::Callback), &[Function::Read]), ""),
        (command(Some(ONE), Function::Write, Action::Disable, None), ""),
        (Operation::Functions(Functions::Filter(None, Function::Read, true)), ""),
        (Operation::Functions(Functions::Trace(None, Tracer::Graph)), ""),
    ]);
    for operation in tear_down(&model) {
        assert!(operation.is_known(&model), "{operation:?}");
        assert_eq!(operation.apply(&mut model), Ok(()), "{operation:?}");
    }
    let facts = *model.facts;
    let recorded = model.recorded.clone();
    assert_eq!(Model { recorded, ..Model::new(facts) }, model);
}
