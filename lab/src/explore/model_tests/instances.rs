//! Tracing instances, and open files of theirs.

use super::{EVENT, ONE, WORK, applied, applied_to, command, enable, entries, make, writes};
use crate::explore::{
    families::{
        Functions, Instances, Operation, Readers,
        functions::Tracer,
        instances::Choice,
        readers::{Held, OfEvent},
        triggers::Action,
    },
    names::Function,
    state::Model,
};

#[test]
fn a_snapshot_exchanges_two_buffers() {
    let model = applied(&[
        (make(ONE), ""),
        (writes(EVENT), ""),
        (enable(Some(ONE), EVENT, true), ""),
        (command(Some(ONE), Function::Read, Action::Snapshot, None), ""),
        (WORK, ""),
    ]);
    let snapshot = |model: &Model| *model.tracing[&Some(ONE)].snapshot.as_ref().unwrap().entries;
    assert_eq!((entries(&model, ONE), snapshot(&model)), (0, 3));
    let model = applied_to(model, &[(WORK, ""), (WORK, "")]);
    assert_eq!((entries(&model, ONE), snapshot(&model)), (3, 6));
    // What is older than that is not shown once it is in use again.
    let model = applied_to(model, &[(Operation::Instances(Instances::Clear(ONE)), ""), (WORK, "")]);
    assert_eq!((entries(&model, ONE), snapshot(&model)), (0, 3));
    let model = applied_to(model, &[(Operation::Instances(Instances::Mark(ONE)), "")]);
    assert_eq!(entries(&model, ONE), 1);
}

#[test]
fn an_open_file_holds_what_it_belongs_to() {
    let held = |held, change| Operation::Readers(Readers::Instance(ONE, held, change));
    let traces = |held| Operation::Readers(Readers::Tracer(ONE, held, Tracer::Function));
    let model = applied(&[
        (make(ONE), ""),
        (Operation::Functions(Functions::Filter(Some(ONE), Function::Write, true)), ""),
        (held(Held::Filter, Instances::Remove(ONE)), ""),
        (held(Held::Trace, Instances::Resize(ONE, 64)), ""),
        (traces(Held::Pipe), ""),
    ]);
    assert_eq!(model.tracing[&Some(ONE)].tracer, Tracer::Nop);
    assert_eq!(model.tracing[&Some(ONE)].size, None);
    let [step] = traces(Held::Pipe).steps(&model).try_into().unwrap();
    assert!(step.ends_with(r#"/current_tracer function = EBUSY\n""#), "{step}");
    let model = applied_to(model, &[(traces(Held::Marker), "")]);
    assert_eq!(model.tracing[&Some(ONE)].tracer, Tracer::Function);
    let [step] = traces(Held::Marker).steps(&model).try_into().unwrap();
    assert!(step.ends_with(r#"/current_tracer function\n""#), "{step}");
}

#[test]
fn an_event_goes_while_a_file_of_it_is_open_unless_it_is_armed() {
    let goes = Operation::Readers(Readers::Event(Some(ONE), EVENT, OfEvent::Enable));
    let model = applied(&[
        (make(ONE), ""),
        (writes(EVENT), ""),
        (enable(Some(ONE), EVENT, true), ""),
        (goes.clone(), ""),
    ]);
    assert!(model.probes(EVENT).next().is_some());
    let model = applied_to(model, &[(enable(Some(ONE), EVENT, false), ""), (goes, "")]);
    assert!(model.files.is_empty());
}

#[test]
fn without_the_option_markers_a_marker_is_invalid() {
    let option = |on| Operation::Instances(Instances::Option(ONE, Choice::Markers, on));
    let mark = || Operation::Instances(Instances::Mark(ONE));
    let model = applied(&[
        (make(ONE), ""),
        (option(false), ""),
        (mark(), "EINVAL"),
        (option(true), ""),
        (mark(), ""),
    ]);
    assert_eq!(entries(&model, ONE), 1);
}
