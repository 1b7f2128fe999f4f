//! Operations → the text of a scenario that requires what the model predicts.

use super::{
    choose::SHOWN,
    facts::{Facts, Known},
    families::{Functions, Operation, functions::Tracer},
    names::{Event, FUNCTIONS, Function, LANE, PROGRAM},
    state::{Errno, Model},
};
use crate::scenario::Write;
use std::{collections::BTreeSet, fmt::Write as _};

/// A scenario, and the operation of each of its steps.
#[derive(Clone, Debug)]
pub(super) struct Script {
    /// The text of the scenario.
    pub(super) text: String,
    /// For each step the index of its operation, or the number of operations if it is of none.
    pub(super) origins: Vec<usize>,
}

/// The files that may have the names of tasks recorded: they arm an event, or select a tracer.
const NAMES_RECORDED: [&str; 4] = ["/enable", "/trigger", "set_ftrace_filter", "current_tracer"];

/// The files whose text takes effect when they are closed.
const FILTERS: [&str; 3] = ["set_ftrace_filter", "set_graph_function", "set_graph_notrace"];

/// Steps that find memory to which nothing refers. The kernel reports what is older than 5 s, and was the same in two
/// scans. The last one prints the functions that allocated the first of it.
const LEAKS: [&str; 4] = [
    "sh: sleep 6",
    "write: /sys/kernel/debug/kmemleak, text: scan",
    "write: /sys/kernel/debug/kmemleak, text: scan",
    r#"sh: "sed -n 's/.* \\(.*\\)+0x.*/\\1/p' /sys/kernel/debug/kmemleak | head -n 12", stdout: { equal: "" }"#,
];

/// The kind of the report in the kernel log, which does not say what leaked.
pub(super) const LEAK: &str = "kmemleak";

/// Writes a scenario of these operations.
pub(super) fn script(summary: &str, mut model: Model, operations: &[Operation]) -> Script {
    let mut text = format!(
        "summary: {summary:?}\nrequires:\n  kernel: \">=5.10\"\n  config: [KPROBE_EVENTS, HIST_TRIGGERS, \
         DYNAMIC_FTRACE, FUNCTION_TRACER, TRACER_SNAPSHOT, EVENTFD, PROC_KCORE]\ntimeout: {}s\n",
        10 + operations.len() / 8
    );
    if let Some(shift) = model.facts.icount {
        let _ = writeln!(text, "icount: {shift}");
    }
    if operations.iter().any(|operation| matches!(operation, Operation::Lanes(_))) {
        // It runs up to the end.
        let _ = writeln!(text, "may_leave: [\"^instance {LANE}-\"]");
    }
    text += "steps:\n";
    // Brings the program into the guest, so that it can be probed.
    let _ = writeln!(text, "  - {{ workload: {PROGRAM} --help }}");
    let mut origins = vec![0];
    let shown = operations.len().checked_sub(SHOWN.len()).filter(|_| operations.ends_with(&SHOWN));
    let mut cleared = None;
    for (index, operation) in operations.iter().enumerate() {
        let is_last = index + 1 == operations.len();
        if shown.filter(|_| model.facts.has_text_of_trace) == Some(index) {
            cleared = Some(model.records());
            text += "  - { write: trace, text: \"\" }\n";
            origins.push(index);
        }
        let steps = operation.steps(&model).into_iter().filter(|step| is_worth(step, *model.facts, is_last));
        let steps: Vec<String> = steps.collect();
        let errno = operation.apply(&mut model).err();
        for step in steps {
            let failing = model.facts.faults.then(|| failing(&step, errno, model.facts.known)).flatten();
            let errno = errno.map_or_else(String::new, |errno| format!(", errno: {errno}"));
            let _ = writeln!(text, "  - {{ {} }}", failing.unwrap_or_else(|| step + &errno));
            origins.push(index);
        }
    }
    for step in LEAKS.iter().filter(|_| model.facts.leaks) {
        let _ = writeln!(text, "  - {{ {step} }}");
        origins.push(operations.len());
    }
    let mut expectations = expectations(&model, operations);
    if let Some(cleared) = cleared {
        let events = model.records() - cleared;
        let _ = writeln!(expectations, "  - {{ kernel_text: {{ events: {{ at_least: {events} }} }} }}");
    }
    if !expectations.is_empty() {
        text += "expect:\n";
        text += &expectations;
    }
    Script { text, origins }
}

/// Returns whether a step is taken: no text is compared without a vmlinux, and reading all records of ftrace,
/// which takes as long as a sequence, waits for the end if none is in use.
fn is_worth(step: &str, facts: Facts, is_last: bool) -> bool {
    let is_unused = step.contains("ftrace_site") && step.ends_with("is: disabled");
    (facts.has_text || !step.starts_with("text:")) && (is_last || !is_unused)
}

/// Returns the step that does what one that writes does, with each of the kernel's allocations failing in turn.
/// Whatever failed must leave nothing behind. `None` if it does not write, or the kernel is known to do otherwise.
fn failing(step: &str, errno: Option<Errno>, known: Known) -> Option<String> {
    let Write { write, text, append, .. } = serde_yaml::from_str(&format!("{{ {step} }}")).ok()?;
    let is_to = |file: &&str| write.as_str().ends_with(file);
    if known.names_unregistered && NAMES_RECORDED.iter().any(is_to)
        || known.filter_no_memory && FILTERS.iter().any(is_to)
        || known.directory_no_memory && text.starts_with("e:")
    {
        return None;
    }
    let append = if append { "--append " } else { "" };
    let command = format!("failing {append}'{}' '{text}'", write.as_str());
    let (exit, ends) = match errno {
        Some(errno) => (1, format!("fails with {errno}")),
        None => (0, "succeeds".to_owned()),
    };
    Some(format!("workload: {command:?}, exit: {exit}, stdout: {{ ends_with: {ends} }}"))
}

/// What the whole trace of the top level must hold.
fn expectations(model: &Model, operations: &[Operation]) -> String {
    let mut text = String::new();
    let name = |event: &Event| event.to_string().replace('/', ":");
    for (event, values) in &*model.recorded {
        let name = name(event);
        let count = values.len();
        let _ = writeln!(text, "  - {{ count: {{ event: {name:?}, is: {count} }} }}");
        let values: Option<Vec<String>> =
            values.iter().map(|value| value.map(|value| value.to_string())).collect();
        if let Some(values) = values.filter(|values| !values.is_empty()) {
            let equal = values.join(", ");
            let _ = writeln!(text, "  - {{ values: {{ event: {name:?}, field: value, equal: [{equal}] }} }}");
        }
    }
    text += &in_order(&model.moments, name);
    let tracers = operations.iter().flat_map(Operation::parts).filter_map(|operation| match operation {
        Operation::Functions(Functions::Trace(None, tracer)) => Some(*tracer),
        _ => None,
    });
    let functions = || FUNCTIONS.into_iter().chain([Function::Show]);
    for (tracer, function) in
        BTreeSet::from_iter(tracers).into_iter().flat_map(|tracer| functions().map(move |to| (tracer, to)))
    {
        let [outer, inner] = model.traced.get(&(tracer, function)).copied().unwrap_or_default();
        let symbol = function.symbol();
        // None of them calls another, but the wrapper of one calls it.
        let calls = match tracer {
            Tracer::Graph => {
                let at = |depth| format!(r#"sym(func) == "{symbol}" && depth == {depth}"#);
                vec![(at(0), outer), (at(1), inner)]
            }
            _ => vec![(format!(r#"sym(ip) == "{symbol}""#), outer + inner)],
        };
        for event in tracer.events() {
            for (is_it, count) in &calls {
                let _ =
                    writeln!(text, "  - {{ count: {{ event: {event}, where: '{is_it}', is: {count} }} }}");
            }
        }
    }
    let _ = writeln!(text, "  - {{ count: {{ event: kernel_stack, is: {} }} }}", *model.stacked);
    text
}

/// In which order the events come: each sequence has one of each moment, and all are in one of the sequences.
fn in_order(moments: &[BTreeSet<Event>], name: impl Fn(&Event) -> String) -> String {
    let moments: Vec<Vec<&Event>> =
        moments.iter().filter(|moment| !moment.is_empty()).map(|moment| moment.iter().collect()).collect();
    let most = moments.iter().map(Vec::len).max().filter(|_| moments.len() > 1).unwrap_or_default();
    let one = |number| {
        let events =
            moments.iter().map(|moment| format!("{{ event: {:?} }}", name(moment[number % moment.len()])));
        format!("  - {{ sequence: [{}] }}\n", events.collect::<Vec<_>>().join(", "))
    };
    (0..most).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        explore::{
            choose::{Chooser, kept},
            names::{Sequence, write},
        },
        scenario::{Scenario, Step},
    };
    use std::path::Path;

    #[test]
    fn what_comes_at_one_moment_comes_in_any_order() {
        let [first, second, third] = [0, 1, 2].map(|number| Event::Probes(Sequence(0), number));
        let check = |moments: &[&[Event]], expect: &[&[Event]]| {
            let moments: Vec<BTreeSet<Event>> =
                moments.iter().map(|moment| moment.iter().copied().collect()).collect();
            let lines = expect.iter().map(|events| {
                let events: Vec<String> =
                    events.iter().map(|event| format!("{{ event: \"{event}\" }}")).collect();
                format!("  - {{ sequence: [{}] }}\n", events.join(", "))
            });
            assert_eq!(in_order(&moments, Event::to_string), lines.collect::<String>());
        };
        check(&[], &[]);
        check(&[&[], &[first, second]], &[]);
        check(&[&[first], &[], &[second], &[first]], &[&[first, second, first]]);
        check(&[&[first, second], &[third]], &[&[first, third], &[second, third]]);
    }

    #[test]
    fn every_sequence_is_a_scenario() {
        let facts = Facts {
            fprobes: true,
            eprobes: true,
            syscalls: true,
            synthetic: true,
            offsets: Some([0x1000, 0x2000]),
            has_text: true,
            files_end: true,
            direct: true,
            livepatch: true,
            maps: true,
            user_events: true,
            tprobes: true,
            has_text_of_trace: true,
            ..Facts::default()
        };
        let with_faults = Facts { faults: true, ..facts };
        let mut shown = 0;
        for facts in [facts, with_faults] {
            let mut chooser = Chooser::new(1, facts);
            for number in 0..100 {
                let (first, last) = (chooser.sequence(None), chooser.sequence(None));
                let keeping = kept(facts, &last).filter(|_| number % 2 == 0);
                let operations = [first, keeping.clone().unwrap_or(last)].concat();
                let script = script("two sequences", Model::new(facts), &operations);
                let scenario = Scenario::parse(Path::new("explored.yaml"), &script.text);
                let scenario = scenario.unwrap_or_else(|error| panic!("{error}\n{}", script.text));
                assert_eq!(scenario.steps.len(), script.origins.len());
                let defines = |step: &Step| matches!(step, Step::Write(write) if write.write.as_str() == "dynamic_events");
                let plain = scenario.steps.iter().any(|step| defines(&step.value));
                assert!(!(plain && facts.faults), "{}", script.text);
                assert_eq!(scenario.compares_kernel_text(), keeping.is_some(), "{}", script.text);
                shown += usize::from(keeping.is_some());
            }
        }
        assert!(shown > 80, "{shown}");
    }

    #[test]
    fn what_a_kernel_does_not_undo_is_done_with_memory() {
        let is_tried =
            |file: &str, text: &str, known| failing(&write(file, text, true), None, known).is_some();
        let known = Known { filter_no_memory: true, directory_no_memory: true, ..Known::default() };
        let [filter, probe] = [("set_graph_notrace", "vfs_read"), ("dynamic_events", "e:x0/e0 syscalls.x")];
        for (file, text) in [filter, probe] {
            assert!(is_tried(file, text, Known::default()));
            assert!(!is_tried(file, text, known));
        }
        assert!(is_tried("dynamic_events", "p:x0/e0 vfs_read", known));
        assert!(is_tried("trace_clock", "global", known));
    }
}
