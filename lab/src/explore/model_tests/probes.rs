//! Probe events.

use super::{
    EVENT, ONE, OTHER, SEQUENCE, WORK, applied, applied_to, define, enable, entries, make, reads, trigger,
    writes,
};
use crate::explore::{
    facts::{Facts, Known},
    families::{KeyChange, Operation, Probes, Switches, probes::List, triggers::Action},
    filter::Filter,
    names::{Event, Function},
    probe::{Arguments, Kind, Probe},
    state::Model,
};

#[test]
fn an_enabled_event_loses_its_probes_but_for_the_last() {
    let at = |function, arguments| define(EVENT, Kind::Kprobe, function, arguments);
    let model = applied(&[
        (at(Function::Write, Arguments::None), ""),
        (at(Function::Read, Arguments::None), ""),
        (at(Function::Read, Arguments::None), "EEXIST"),
        (at(Function::Read, Arguments::Own), "EEXIST"),
        (enable(None, EVENT, true), ""),
        (Operation::Probes(Probes::Truncate(List::Kprobes)), "EBUSY"),
        (Operation::Probes(Probes::Remove(List::All, EVENT)), "EBUSY"),
    ]);
    let left: Vec<_> = model.lines.iter().map(|line| line.probe.function).collect();
    assert_eq!(left, [Function::Read]);
}

#[test]
fn a_probe_fetches_from_its_file_and_none_has_a_zeroth_argument() {
    let facts = Facts { word: 0x0001_0102, offsets: Some([0x1000, 0x2000]), ..Facts::default() };
    let model = applied_to(
        Model::new(facts),
        &[
            (define(OTHER, Kind::Kprobe, Function::Write, Arguments::Zeroth), "EINVAL"),
            (define(EVENT, Kind::Uprobe, Function::Main, Arguments::File), ""),
            (enable(None, EVENT, true), ""),
            (WORK, ""),
        ],
    );
    assert_eq!(model.lines.len(), 1);
    assert_eq!(model.recorded[&EVENT], [Some(0x0001_0102)]);
}

#[test]
fn kprobes_of_a_function_are_hit_the_last_one_first() {
    let stopped = |first, second| {
        let model = applied(&[
            (writes(first), ""),
            (writes(second), ""),
            (enable(None, EVENT, true), ""),
            (enable(None, OTHER, true), ""),
            (trigger(None, OTHER, Action::Off, None, Filter::Clear), ""),
            (WORK, ""),
        ]);
        model.recorded[&EVENT].len()
    };
    assert_eq!((stopped(EVENT, OTHER), stopped(OTHER, EVENT)), (0, 1));
}

#[test]
fn uprobes_of_an_armed_event_are_left_alone_where_the_kernel_loses_them() {
    let known = Known { uprobe_append: true, uprobe_removed: true, ..Known::default() };
    let model = Model::new(Facts { known, offsets: Some([1, 2]), ..Facts::default() });
    let at = |function| define(EVENT, Kind::Uprobe, function, Arguments::Own);
    let model = applied_to(model, &[(at(Function::Main), ""), (enable(None, EVENT, true), ""), (WORK, "")]);
    assert_eq!(model.recorded[&EVENT], [Some(4)]);
    assert!(!at(Function::Open).is_known(&model));
    assert!(!Operation::Probes(Probes::Remove(List::All, EVENT)).is_known(&model));
}

#[test]
fn a_kprobe_enabled_while_all_are_disarmed_is_armed_with_them_or_left_alone_where_the_kernel_forgets_it() {
    let all = |on| Operation::Switches(Switches::Kprobes(on));
    let operations =
        [(writes(EVENT), ""), (all(false), ""), (enable(None, EVENT, true), ""), (WORK, ""), (all(true), "")];
    let model = applied(&operations);
    assert!(model.recorded[&EVENT].is_empty() && model.has_brk(Function::Write));
    let known = Known { kprobe_disarmed: true, ..Known::default() };
    let model = applied_to(Model::new(Facts { known, ..Facts::default() }), &operations[..2]);
    assert!(!enable(None, EVENT, true).is_known(&model) && enable(None, EVENT, false).is_known(&model));
}

#[test]
fn a_probe_is_not_removed_before_the_others_of_its_event_where_these_need_its_names() {
    let remove = |event, function| Operation::Probes(Probes::RemoveAt(event, function));
    let operations = [(writes(EVENT), ""), (reads(EVENT), ""), (writes(OTHER), "")];
    let on = |known| applied_to(Model::new(Facts { known, ..Facts::default() }), &operations);
    let known = |model: &Model| {
        let all = Operation::Probes(Probes::Remove(List::All, EVENT));
        let operations = [remove(EVENT, Function::Write), remove(OTHER, Function::Write), all];
        operations.map(|operation| operation.is_known(model))
    };
    assert_eq!(known(&on(Known::default())), [true; 3]);
    let model = on(Known { field_name: true, ..Known::default() });
    assert_eq!(known(&model), [false, true, true]);
    // All but the last one are removed.
    let model = applied_to(model, &[(enable(None, EVENT, true), "")]);
    assert_eq!(known(&model), [false, true, false]);
}

#[test]
fn an_event_probe_is_hit_wherever_it_is_enabled() {
    let facts = Facts { offsets: Some([1, 2]), syscalls: true, eprobes: true, ..Facts::default() };
    let probe = |event| define(event, Kind::Eprobe, Function::Open, Arguments::Own);
    let operations = [
        (make(ONE), ""),
        (probe(EVENT), ""),
        (probe(EVENT), "EEXIST"),
        (enable(Some(ONE), EVENT, true), ""),
        (enable(None, EVENT, true), ""),
        (Operation::Probes(Probes::Remove(List::All, EVENT)), "EBUSY"),
        (WORK, ""),
    ];
    let model = applied_to(Model::new(facts), &operations);
    assert_eq!((model.recorded[&EVENT].as_slice(), entries(&model, ONE)), (&[Some(0x800)][..], 1));
    // Its event is armed and not recorded.
    assert_eq!(model.files[&(Event::Syscall, None)].text(), "0*");
    assert_eq!(model.recorded[&Event::Syscall], []);
    let known = Known { eprobe_instance: true, ..Known::default() };
    let model = applied_to(Model::new(Facts { known, ..facts }), &operations[..4]);
    assert!(!enable(None, EVENT, true).is_known(&model));
}

#[test]
fn a_probe_of_a_tracepoint_is_hit_by_each_load() {
    let load = |on| Operation::Keys(KeyChange::Load(on));
    let model = applied(&[
        (define(EVENT, Kind::Tprobe, Function::Load, Arguments::Immediate), ""),
        (enable(None, EVENT, true), ""),
        (load(true), ""),
        (load(false), ""),
        (load(true), ""),
    ]);
    assert_eq!(model.recorded[&EVENT], [Some(3), Some(3)]);
    let model = applied(&[
        (define(EVENT, Kind::Tprobe, Function::Load, Arguments::Immediate), ""),
        (define(EVENT, Kind::Tprobe, Function::Load, Arguments::Own), ""),
        (enable(None, EVENT, true), ""),
        (load(true), ""),
    ]);
    assert_eq!(model.recorded[&EVENT], [Some(5), Some(3)]);
}

#[test]
fn a_user_event_is_the_same_when_it_is_defined_again_and_busy_while_it_is_enabled() {
    let event = Event::User(SEQUENCE, 0);
    let defined = Operation::Probes(Probes::Define(event, Probe::placeless(Kind::User)));
    let remove = Operation::Probes(Probes::Remove(List::All, event));
    let truncate = Operation::Probes(Probes::Truncate(List::All));
    let model = applied(&[
        (defined.clone(), ""),
        (defined, ""),
        (enable(None, event, true), ""),
        (truncate, "EBUSY"),
        (remove.clone(), "EBUSY"),
        (enable(None, event, false), ""),
        (remove, ""),
    ]);
    assert!(model.lines.is_empty());
}

#[test]
fn an_armed_fprobe_of_a_module_is_hit_until_that_is_gone() {
    let load = |on| Operation::Keys(KeyChange::Load(on));
    let calls = || Operation::Keys(KeyChange::Show);
    let probe = define(EVENT, Kind::Fprobe, Function::Show, Arguments::Immediate);
    let facts = Facts { fprobes: true, ..Facts::default() };
    assert!(!probe.is_known(&Model::new(facts)));
    let model = applied_to(
        Model::new(facts),
        &[
            (load(true), ""),
            (probe, ""),
            (enable(None, EVENT, true), ""),
            (calls(), ""),
            (load(false), ""),
            (load(true), ""),
            (calls(), ""),
        ],
    );
    assert_eq!(model.recorded[&EVENT].len(), 1);
    let model = applied_to(model, &[(enable(None, EVENT, false), ""), (load(false), "")]);
    assert!(!enable(None, EVENT, true).is_known(&model));
    let again = [(load(true), ""), (enable(None, EVENT, true), ""), (calls(), "")];
    assert_eq!(applied_to(model, &again).recorded[&EVENT].len(), 2);
}

#[test]
fn the_last_fprobe_of_an_event_is_hit_first() {
    let returns = |arguments| define(EVENT, Kind::Fexit, Function::Write, arguments);
    let model = applied_to(
        Model::new(Facts { fprobes: true, ..Facts::default() }),
        &[
            (returns(Arguments::Immediate), ""),
            (returns(Arguments::Own), ""),
            (enable(None, EVENT, true), ""),
            (WORK, ""),
        ],
    );
    assert_eq!(model.recorded[&EVENT], [8, 3, 8, 3, 8, 3].map(Some));
}
