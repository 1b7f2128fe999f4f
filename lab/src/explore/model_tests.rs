//! What the model predicts, as tables.

use super::{
    facts::{Facts, Known},
    families::{
        Commands, Events, Functions, Hooks, Instances, KeyChange, Operation, Probes, Readers, Switches,
        Triggers, Workload,
        commands::Command,
        functions::{GraphFilter, Tracer},
        hooks::{By, Flag, HookChange, Way},
        instances::Choice,
        probes::List,
        readers::{Held, OfEvent},
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
fn of_two_ipmodify_hooks_of_a_function_the_second_is_refused() {
    let add = HookChange::Add(Way::Ipmodify);
    let model = applied(&[
        (hook(ONE, add, &[Function::Write]), ""),
        (hook(TWO, add, &[Function::Write, Function::Read]), "EBUSY"),
        (hook(TWO, add, &[Function::Read]), ""),
        (hook(TWO, HookChange::Widen, &[Function::Write]), "EBUSY"),
        (hook(ONE, HookChange::Disable, &[]), ""),
        (hook(TWO, HookChange::Widen, &[Function::Write]), ""),
        (hook(ONE, HookChange::Enable, &[]), "EBUSY"),
        // It would be on all functions.
        (hook(Named { number: 2, ..ONE }, HookChange::AddUnset, &[]), "EINVAL"),
        (WORK, ""),
    ]);
    assert_eq!((*model.hooks[&ONE].hits, *model.hooks[&TWO].hits), (0, 4));
}

#[test]
fn a_function_has_one_direct_call_and_none_beside_ipmodify() {
    let (direct, ipmodify) = (HookChange::Add(Way::Direct), HookChange::Add(Way::Ipmodify));
    let model = applied(&[
        (hook(ONE, direct, &[Function::Write]), ""),
        (hook(TWO, direct, &[Function::Read, Function::Write]), "EBUSY"),
        (hook(TWO, ipmodify, &[Function::Write]), "EBUSY"),
        (hook(TWO, ipmodify, &[Function::Read]), ""),
        (hook(TWO, HookChange::Widen, &[Function::Write]), "EBUSY"),
        (hook(ONE, HookChange::Disable, &[]), ""),
        (WORK, ""),
        (hook(ONE, HookChange::Enable, &[]), ""),
        (WORK, ""),
    ]);
    assert_eq!((*model.hooks[&ONE].hits, *model.hooks[&TWO].hits), (3, 2));
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
fn commands_are_refused_twice_and_count_what_they_change() {
    let model = applied(&[
        (command(None, Function::Read, Action::Off, Some(1)), ""),
        (command(None, Function::Read, Action::Off, Some(2)), "EINVAL"),
        (command(None, Function::Read, Action::Enable, None), "EINVAL"),
        (WORK, ""),
        (WORK, ""),
    ]);
    assert!(model.commands.values().all(|(_, left)| *left == 0));
    assert!(!model.tracing[&None].buffer.records);
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
fn what_is_at_a_function_of_a_module_waits_for_it() {
    let load = |on| Operation::Keys(KeyChange::Load(on));
    let calls = Operation::Keys(KeyChange::Show);
    let awaits = |on| Operation::Functions(Functions::Await(Some(ONE), on));
    let named = Operation::Functions(Functions::Filter(Some(ONE), Function::Show, true));
    let traces = Operation::Functions(Functions::Trace(Some(ONE), Tracer::Function));
    let model = applied(&[
        (make(ONE), ""),
        (define(EVENT, Kind::Kprobe, Function::Show, Arguments::Immediate), ""),
        (enable(None, EVENT, true), ""),
        (named.clone(), "EINVAL"),
        (awaits(false), "EINVAL"),
        (awaits(true), ""),
        (traces, ""),
    ]);
    assert!(!calls.is_known(&model));
    let model = applied_to(model, &[(load(true), ""), (calls.clone(), "")]);
    assert!(model.has_brk(Function::Show));
    assert_eq!((entries(&model, ONE), model.recorded[&EVENT].len()), (1, 1));
    // The probe comes back with the module, the filter has only what is gone.
    let model = applied_to(model, &[(load(false), ""), (load(true), ""), (calls, "")]);
    assert_eq!((entries(&model, ONE), model.recorded[&EVENT].len()), (1, 2));
    assert!(!model.tracing[&Some(ONE)].has_no_filter());
    let hooked = hook(TWO, HookChange::Add(Way::Callback), &[Function::Show]);
    assert!(!load(false).is_known(&applied_to(model, &[(named, ""), (hooked, "")])));
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

#[test]
fn the_graph_tracer_records_calls_and_returns_that_its_filters_pass() {
    let functions = |operation| Operation::Functions(operation);
    let filter = |place, function| functions(Functions::Filter(place, function, true));
    let graph = |filter, function, on| functions(Functions::Graph(filter, function, on));
    let trace = |place| functions(Functions::Trace(place, Tracer::Graph));
    let model = applied_to(
        Model::new(Facts { graph_instances: true, ..Facts::default() }),
        &[
            (make(ONE), ""),
            (filter(None, Function::Write), ""),
            (filter(Some(ONE), Function::Write), ""),
            (filter(Some(ONE), Function::Read), ""),
            (trace(None), ""),
            (trace(Some(ONE)), ""),
            (WORK, ""),
        ],
    );
    assert_eq!((model.traced[&(Tracer::Graph, Function::Write)], entries(&model, ONE)), (3, 8));
    assert_eq!(model.records(), 6);
    // The filters are those of all places.
    let model = applied_to(
        model,
        &[
            (graph(GraphFilter::Only, Function::Show, true), "EINVAL"),
            (graph(GraphFilter::Only, Function::Read, true), ""),
            (WORK, ""),
            (graph(GraphFilter::Not, Function::Read, true), ""),
            (WORK, ""),
            (graph(GraphFilter::Not, Function::Write, false), "EINVAL"),
            (functions(Functions::ResetGraph(GraphFilter::Only)), ""),
            (WORK, ""),
        ],
    );
    assert_eq!((model.traced[&(Tracer::Graph, Function::Write)], entries(&model, ONE)), (6, 16));
    let other =
        applied(&[(make(ONE), ""), (filter(Some(ONE), Function::Read), ""), (trace(Some(ONE)), "EINVAL")]);
    assert_eq!(other.tracing[&Some(ONE)].tracer, Tracer::Nop);
}

#[test]
fn a_permanent_hook_keeps_ftrace_on() {
    let made = |flag| {
        let hooks = Hooks(ONE, HookChange::Add(Way::Callback), vec![Function::Write], (By::Address, flag));
        Operation::Hooks(hooks)
    };
    let off = || Operation::Switches(Switches::Ftrace(false));
    let model = applied(&[(made(Flag::Permanent), ""), (off(), "EBUSY")]);
    let model = applied_to(model, &[(hook(ONE, HookChange::Disable, &[]), ""), (off(), "")]);
    applied_to(model, &[(hook(ONE, HookChange::Enable, &[]), "EBUSY")]);
    applied(&[(off(), ""), (made(Flag::Permanent), "EBUSY"), (made(Flag::Recursion), "")]);
    let [step] = made(Flag::Rcu).steps(&Model::new(Facts::default())).try_into().unwrap();
    assert_eq!(step, r#"hook: "+x0_0 symbol=@eventfd_write flags=rcu""#);
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
