use super::*;
use Operation::{Define, Enable, Filter as SetFilter, Histogram, Hook, MakeInstance, Remove, Truncate, Work};

const EVENT: Event = Event { sequence: 0, number: 0 };
const ONE: Named = Named { sequence: 0, number: 0 };
const TWO: Named = Named { sequence: 0, number: 1 };

fn probe(function: Function, arguments: Arguments) -> Probe {
    Probe { kind: Kind::Kprobe, function, arguments }
}

/// Applies operations, each with the errno that it must get, "" for none.
fn applied(operations: &[(Operation, &str)]) -> Model {
    let mut model = Model::default();
    for (operation, expect) in operations {
        assert!(model.knows(operation), "{operation:?}");
        assert_eq!(model.apply(operation).err().unwrap_or_default(), *expect, "{operation:?}");
    }
    model
}

#[test]
fn each_place_records_what_its_filter_lets_pass() {
    let model = applied(&[
        (MakeInstance(ONE), ""),
        (Define(EVENT, probe(Function::Write, Arguments::Own)), ""),
        (Enable(None, EVENT, true), ""),
        (Enable(Some(ONE), EVENT, true), ""),
        (SetFilter(Some(ONE), EVENT, Filter::Above), ""),
        (Histogram(None, EVENT, true), ""),
        (Work, ""),
    ]);
    assert_eq!(model.recorded[&EVENT], 3);
    // Only 4 is above 2.
    assert_eq!(model.instances[&ONE].entries, 1);
    assert_eq!(model.files[&(EVENT, None)].histogram, Some(3));
    assert!(model.has_brk(Function::Write) && !model.has_brk(Function::Read));
}

#[test]
fn a_filter_that_is_refused_filters_nothing() {
    let model = applied(&[
        (Define(EVENT, probe(Function::Write, Arguments::Own)), ""),
        (Enable(None, EVENT, true), ""),
        (SetFilter(None, EVENT, Filter::Above), ""),
        (SetFilter(None, EVENT, Filter::Malformed), "EINVAL"),
        (Work, ""),
    ]);
    assert_eq!(model.recorded[&EVENT], 3);
}

#[test]
fn an_enabled_event_loses_its_probes_but_for_the_last() {
    let define = |function| (Define(EVENT, probe(function, Arguments::None)), "");
    let model = applied(&[
        define(Function::Write),
        define(Function::Read),
        (Define(EVENT, probe(Function::Read, Arguments::None)), "EEXIST"),
        (Define(EVENT, probe(Function::Read, Arguments::Own)), "EEXIST"),
        (Enable(None, EVENT, true), ""),
        (Truncate(List::Kprobes), "EBUSY"),
        (Remove(List::All, EVENT), "EBUSY"),
    ]);
    let left: Vec<_> = model.lines.iter().map(|line| line.probe.function).collect();
    assert_eq!(left, [Function::Read]);
}

#[test]
fn of_two_ipmodify_hooks_of_a_function_the_second_is_refused() {
    let both = vec![Function::Write, Function::Read];
    let add = HookChange::Add { ipmodify: true };
    let model = applied(&[
        (Hook(ONE, add, vec![Function::Write]), ""),
        (Hook(TWO, add, both.clone()), "EBUSY"),
        (Hook(TWO, add, vec![Function::Read]), ""),
        (Hook(TWO, HookChange::Widen, vec![Function::Write]), "EBUSY"),
        (Hook(ONE, HookChange::Disable, Vec::new()), ""),
        (Hook(TWO, HookChange::Widen, vec![Function::Write]), ""),
        (Hook(ONE, HookChange::Enable, Vec::new()), "EBUSY"),
        (Work, ""),
    ]);
    assert_eq!((model.hooks[&ONE].hits, model.hooks[&TWO].hits), (0, 4));
    assert_eq!(model.ops(Function::Write), (1, false));
}

#[test]
fn nothing_is_left_after_tearing_down() {
    let mut model = applied(&[
        (MakeInstance(ONE), ""),
        (Define(EVENT, probe(Function::Write, Arguments::Own)), ""),
        (Enable(Some(ONE), EVENT, true), ""),
        (Histogram(Some(ONE), EVENT, true), ""),
        (Hook(ONE, HookChange::Add { ipmodify: false }, vec![Function::Read]), ""),
        (Operation::FunctionFilter(None, Function::Read, true), ""),
        (Operation::Tracer(None, Tracer::Function), ""),
    ]);
    for operation in model.tear_down() {
        assert!(model.knows(&operation), "{operation:?}");
        assert_eq!(model.apply(&operation), Ok(()), "{operation:?}");
    }
    assert_eq!(model.shape(), Model::default().shape());
}
