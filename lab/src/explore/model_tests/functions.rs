//! Hooks, the tracers of calls, and commands at functions.

use super::{EVENT, ONE, TWO, WORK, applied, applied_to, command, define, enable, entries, hook, make};
use crate::explore::{
    facts::{Facts, Known},
    families::{
        Functions, Hooks, KeyChange, Operation, Switches,
        functions::{GraphFilter, Tracer},
        hooks::{By, Flag, HookChange, Way},
        triggers::Action,
    },
    names::{Function, Named},
    probe::{Arguments, Kind},
    state::{Aside, Model},
};

/// A new hook of a function.
fn made(name: Named, way: Way, function: Function, (by, flag): (By, Flag)) -> Operation {
    Operation::Hooks(Hooks(name, HookChange::Add(way), vec![function], (by, flag)))
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
fn a_permanent_hook_keeps_ftrace_on() {
    let made = |flag| made(ONE, Way::Callback, Function::Write, (By::Address, flag));
    let off = || Operation::Switches(Switches::Ftrace(false));
    let model = applied(&[(made(Flag::Permanent), ""), (off(), "EBUSY")]);
    let model = applied_to(model, &[(hook(ONE, HookChange::Disable, &[]), ""), (off(), "")]);
    applied_to(model, &[(hook(ONE, HookChange::Enable, &[]), "EBUSY")]);
    applied(&[(off(), ""), (made(Flag::Permanent), "EBUSY"), (made(Flag::Recursion), "")]);
    let [step] = made(Flag::Rcu).steps(&Model::new(Facts::default())).try_into().unwrap();
    assert_eq!(step, r#"hook: "+x0_0 symbol=@eventfd_write flags=rcu""#);
}

#[test]
fn a_redirected_call_is_seen_again_by_all_but_its_hook() {
    let redirect = |name, function, by| made(name, Way::Redirect, function, (by, Flag::None));
    let three = Named { number: 2, ..ONE };
    let model = applied(&[
        (Operation::Keys(KeyChange::Load(true)), ""),
        (redirect(ONE, Function::Show, By::Name), "EINVAL"),
        (redirect(ONE, Function::Write, By::Glob), "EINVAL"),
        (redirect(ONE, Function::Write, By::Name), ""),
        (redirect(TWO, Function::Write, By::Address), "EBUSY"),
        (hook(ONE, HookChange::Widen, &[Function::Show]), "EINVAL"),
        (redirect(TWO, Function::Read, By::Address), ""),
        (hook(TWO, HookChange::Disable, &[]), ""),
        (hook(three, HookChange::Add(Way::Callback), &[Function::Write, Function::Read]), ""),
        (define(EVENT, Kind::Kretprobe, Function::Write, Arguments::Own), ""),
        (enable(None, EVENT, true), ""),
        (WORK, ""),
    ]);
    assert!(!redirect(ONE, Function::Show, By::Address).is_known(&model));
    assert_eq!([ONE, TWO, three].map(|name| *model.hooks[&name].hits), [3, 0, 7]);
    assert_eq!(model.recorded[&EVENT], [Some(8); 6]);
    let traced = applied_to(
        model.clone(),
        &[
            (Operation::Functions(Functions::Filter(None, Function::Write, true)), ""),
            (Operation::Functions(Functions::Trace(None, Tracer::Graph)), ""),
            (WORK, ""),
        ],
    );
    assert_eq!((traced.traced[&(Tracer::Graph, Function::Write)], *traced.stacked), ([3, 3], 0));
    assert_eq!(traced.records(), 12 + 12);
    assert!(WORK.is_known(&traced));
    let mut old = traced;
    old.facts.lacks_args = true;
    assert!(!WORK.is_known(&old));
    let off = (Operation::Switches(Switches::Ftrace(false)), "");
    let model = applied_to(model, &[off, (WORK, "")]);
    assert_eq!((*model.hooks[&ONE].hits, model.recorded[&EVENT].len()), (3, 9));
    let [step] = redirect(ONE, Function::Write, By::Name).steps(&model).try_into().unwrap();
    assert_eq!(step, r#"hook: "+x0_0 symbol=eventfd_write action=redirect""#);
}

#[test]
fn a_function_that_returns_at_once_does_nothing_and_passes_a_graph_tracer_by() {
    let returns = made(ONE, Way::Return, Function::Read, (By::Name, Flag::Recursion));
    let functions = Operation::Functions;
    let filter = functions(Functions::Filter(None, Function::Read, true));
    let trace = |tracer| functions(Functions::Trace(None, tracer));
    let model = applied(&[
        (returns, ""),
        (define(EVENT, Kind::Kretprobe, Function::Read, Arguments::Own), ""),
        (enable(None, EVENT, true), ""),
        (WORK, ""),
        (filter, ""),
        (trace(Tracer::Function), ""),
    ]);
    let read = |model: &Model| WORK.steps(model).pop().unwrap_or_default();
    assert!(read(&model).ends_with("read 4 }"), "{}", read(&model));
    assert_eq!((*model.hooks[&ONE].hits, &model.recorded[&EVENT][..]), (1, &[Some(8)][..]));
    assert!(WORK.is_known(&model));
    let graph = applied_to(model, &[(trace(Tracer::Graph), "")]);
    assert!(!WORK.is_known(&graph));
    let model = applied_to(graph, &[(Operation::Switches(Switches::Ftrace(false)), "")]);
    assert!(read(&model).ends_with("read 7 }"), "{}", read(&model));
}

#[test]
fn a_hook_that_saves_registers_is_left_alone_while_ftrace_is_off() {
    let made = |name, way, flag| made(name, way, Function::Write, (By::Name, flag));
    let known = Known { off_filter: true, ..Known::default() };
    let model = applied_to(
        Model::new(Facts { known, ..Facts::default() }),
        &[
            (made(ONE, Way::Callback, Flag::Regs), ""),
            (made(TWO, Way::Ipmodify, Flag::None), ""),
            (Operation::Switches(Switches::Ftrace(false)), ""),
            (hook(TWO, HookChange::Disable, &[]), ""),
        ],
    );
    let off = hook(ONE, HookChange::Disable, &[]);
    assert!(!off.is_known(&model));
    applied_to(model, &[(Operation::Switches(Switches::Ftrace(true)), ""), (off, "")]);
    let model = Model::new(Facts { known, lacks_args: true, ..Facts::default() });
    let on = (made(TWO, Way::Ipmodify, Flag::None), "");
    let model = applied_to(model, &[on, (Operation::Switches(Switches::Ftrace(false)), "")]);
    assert!(!hook(TWO, HookChange::Disable, &[]).is_known(&model));
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
            (functions(Functions::FilterAll(Some(ONE))), ""),
            (trace(None), ""),
            (trace(Some(ONE)), ""),
            (WORK, ""),
        ],
    );
    assert_eq!((model.traced[&(Tracer::Graph, Function::Write)], entries(&model, ONE)), ([3, 0], 8));
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
    assert_eq!((model.traced[&(Tracer::Graph, Function::Write)], entries(&model, ONE)), ([6, 0], 16));
    let other =
        applied(&[(make(ONE), ""), (filter(Some(ONE), Function::Read), ""), (trace(Some(ONE)), "EINVAL")]);
    assert_eq!(other.tracing[&Some(ONE)].tracer, Tracer::Nop);
}

#[test]
fn graph_tracers_are_left_alone_where_the_kernel_breaks_them() {
    let returns = define(EVENT, Kind::Fexit, Function::Read, Arguments::Immediate);
    let filter = |place| Operation::Functions(Functions::Filter(place, Function::Write, true));
    let trace = |place| Operation::Functions(Functions::Trace(place, Tracer::Graph));
    let of = |known| Model::new(Facts { fprobes: true, graph_instances: true, known, ..Facts::default() });
    let begun =
        [(make(ONE), ""), (filter(None), ""), (filter(Some(ONE)), ""), (returns, ""), (trace(None), "")];
    let fprobe = applied_to(of(Known { fprobe_graph: true, ..Known::default() }), &begun);
    assert!(!enable(Some(ONE), EVENT, true).is_known(&fprobe) && trace(Some(ONE)).is_known(&fprobe));
    let graph = applied_to(of(Known { graph_returns: true, ..Known::default() }), &begun);
    assert!(enable(Some(ONE), EVENT, true).is_known(&graph) && !trace(Some(ONE)).is_known(&graph));
    let waits = applied(&[(Operation::Functions(Functions::Await(None, true)), "")]);
    assert!(trace(None).is_known(&waits));
    let waits = Model {
        facts: Aside(Facts { known: Known { graph_mod: true, ..Known::default() }, ..*waits.facts }),
        ..waits
    };
    assert!(!trace(None).is_known(&waits));
}
