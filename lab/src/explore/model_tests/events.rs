//! Events, their filters and triggers.

use super::{
    EVENT, ONE, OTHER, SEQUENCE, WORK, applied, applied_to, define, enable, entries, filter, make, reads,
    trigger, writes,
};
use crate::explore::{
    facts::Facts,
    families::{
        Operation, Probes, Triggers,
        probes::List,
        triggers::{Action, Spec},
    },
    filter::Filter,
    names::{Event, Function},
    probe::{Arguments, Kind, Probe},
    state::Model,
};

#[test]
fn each_place_records_what_its_filter_lets_pass() {
    let model = applied(&[
        (make(ONE), ""),
        (writes(EVENT), ""),
        (enable(None, EVENT, true), ""),
        (enable(Some(ONE), EVENT, true), ""),
        (filter(Some(ONE), EVENT, Filter::Above), ""),
        (trigger(None, EVENT, Action::Histogram, None, Filter::Clear), ""),
        (WORK, ""),
    ]);
    assert_eq!(model.recorded[&EVENT], [Some(1), Some(2), Some(4)]);
    // Only 4 is above 2.
    assert_eq!(entries(&model, ONE), 1);
    assert_eq!(*model.files[&(EVENT, None)].triggers[0].hits, 3);
    assert!(model.has_brk(Function::Write) && !model.has_brk(Function::Read));
}

#[test]
fn a_filter_that_is_refused_filters_nothing() {
    let model = applied(&[
        (writes(EVENT), ""),
        (enable(None, EVENT, true), ""),
        (filter(None, EVENT, Filter::Above), ""),
        (filter(None, EVENT, Filter::Malformed), "EINVAL"),
        (WORK, ""),
    ]);
    assert_eq!(model.recorded[&EVENT].len(), 3);
}

#[test]
fn a_trigger_stops_tracing_after_its_event() {
    let until = |filter| {
        let model = applied(&[
            (writes(EVENT), ""),
            (writes(OTHER), ""),
            (enable(None, EVENT, true), ""),
            (trigger(None, EVENT, Action::Off, Some(1), filter), ""),
            (WORK, ""),
        ]);
        assert!(!model.tracing[&None].buffer.records);
        model.recorded[&EVENT].clone()
    };
    assert_eq!(until(Filter::Clear), [Some(1)]);
    assert_eq!(until(Filter::Above), [Some(1), Some(2), Some(4)]);
}

#[test]
fn an_event_that_another_enables_is_armed_and_not_recorded_before() {
    let mut model = applied(&[
        (reads(OTHER), ""),
        (writes(EVENT), ""),
        (trigger(None, EVENT, Action::Enable, None, Filter::Above), ""),
    ]);
    assert_eq!(model.files[&(OTHER, None)].text(), "0*");
    assert!(model.has_brk(Function::Read));
    model = applied_to(model, &[(WORK, "")]);
    // The read comes after the 4.
    assert_eq!(model.recorded[&OTHER], [Some(9)]);
    assert_eq!(model.files[&(OTHER, None)].text(), "1*");
    // An event that is armed cannot be removed.
    model = applied_to(model, &[(Operation::Probes(Probes::Remove(List::All, OTHER)), "EBUSY")]);
    assert_eq!(model.lines.len(), 2);
}

#[test]
fn a_histogram_records_a_synthetic_event_for_each_new_value() {
    let synthetic = Event::Synthetic(SEQUENCE, 0);
    let defined = Operation::Probes(Probes::Define(synthetic, Probe::placeless(Kind::Synthetic)));
    let spec = Spec { action: Action::Trace, target: synthetic, count: None, filter: Filter::Clear };
    let add = |event| Operation::Triggers(Triggers::Add(None, event, spec));
    let remove = || Operation::Probes(Probes::Remove(List::All, synthetic));
    let model = applied_to(
        Model::new(Facts { synthetic: true, ..Facts::default() }),
        &[
            (writes(EVENT), ""),
            (add(EVENT), "EINVAL"),
            (defined.clone(), ""),
            (defined, "EEXIST"),
            (add(EVENT), ""),
            // Its variable is defined.
            (add(EVENT), "EINVAL"),
            // It has a user, though it is not armed.
            (remove(), "EBUSY"),
            (filter(None, synthetic, Filter::Above), ""),
            (enable(None, synthetic, true), ""),
            (WORK, ""),
            (WORK, ""),
        ],
    );
    assert_eq!(model.recorded[&synthetic], [Some(4), Some(4)]);
    assert_eq!(model.recorded[&EVENT], []);
    // The return value is always the same.
    let same = define(OTHER, Kind::Kretprobe, Function::Write, Arguments::Own);
    let model = applied_to(model, &[(same, ""), (add(OTHER), ""), (enable(None, EVENT, true), "")]);
    let model = applied_to(model, &[(WORK, ""), (remove(), "EBUSY")]);
    assert_eq!(model.recorded[&synthetic], [4, 4, 8, 4].map(Some));
    let gone = Operation::Triggers(Triggers::Remove(None, EVENT, spec));
    let other_gone = Operation::Triggers(Triggers::Remove(None, OTHER, spec));
    let model = applied_to(model, &[(gone, ""), (other_gone, ""), (enable(None, synthetic, false), "")]);
    applied_to(model, &[(remove(), ""), (remove(), "ENOENT")]);
}
