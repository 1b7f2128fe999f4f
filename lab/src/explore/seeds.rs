//! Scenarios → the sequences that a corpus begins with: operations that do the same, one after the other, to what the
//! explorer knows.

use super::{
    corpus::OPERATIONS_MAX,
    draw::Draw,
    facts::Facts,
    families::{Operation, ROWS, Row},
    names::{PROGRAM, Sequence, write},
    state::Model,
};
use crate::{
    plan::Plan,
    scenario::{Scenario, Step, UserPlaces},
};
use fastrand::Rng;
use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
};

/// The number of operations of a family that are drawn to find one that does what a step does.
const DRAWS: usize = 300;

/// What the lab itself writes to record a trace.
const RECORDING: [&str; 2] = ["tracing_on", "buffer_size_kb"];

/// Returns a sequence of operations for each scenario of which at least two steps have one. They are always the same.
pub(super) fn seeds<'a>(
    facts: Facts,
    scenarios: impl IntoIterator<Item = &'a Scenario>,
) -> Vec<Vec<Operation>> {
    let mut random = Rng::with_seed(0);
    let mut drawn = |row: &Row, model: &Model| {
        let families = &ROWS.iter().map(Some).collect::<Vec<_>>();
        (row.draw)(&mut Draw { random: &mut random, sequence: Sequence(0), model, families })
    };
    let does = |operation: &Operation, model: &Model| operation.steps(model).first().map(|step| action(step));
    // The families that have operations which do this.
    let mut doers: BTreeMap<String, BTreeMap<&str, &Row>> = BTreeMap::new();
    let nothing = Model::new(facts);
    for row in ROWS {
        for action in (0..DRAWS).filter_map(|_| does(&drawn(row, &nothing), &nothing)) {
            doers.entry(action).or_default().insert(row.name, row);
        }
    }
    let mut seeds = BTreeSet::new();
    for scenario in scenarios {
        let (mut model, mut seed) = (nothing.clone(), Vec::new());
        for action in actions(scenario) {
            if seed.len() == OPERATIONS_MAX {
                break;
            }
            let rows = doers.get(&action).into_iter().flat_map(BTreeMap::values);
            for row in rows.flat_map(|row| iter::repeat_n(row, DRAWS)) {
                let operation = drawn(row, &model);
                if does(&operation, &model).as_ref() == Some(&action) && operation.apply_known(&mut model) {
                    seed.push(operation);
                    break;
                }
            }
        }
        if seed.len() > 1 {
            seeds.insert(seed);
        }
    }
    seeds.into_iter().collect()
}

/// Returns what the writes that arm the trace of a scenario do, and then its steps.
fn actions(scenario: &Scenario) -> Vec<String> {
    let plan = Plan::of(scenario, &UserPlaces::default());
    let directories = plan.directories.iter().map(|_| "mkdir".to_owned());
    let of_lab = |file: &str| RECORDING.iter().any(|name| file.ends_with(name));
    let armed = plan.writes.iter().filter(|armed| !of_lab(&armed.file));
    let armed = armed.map(|armed| write(&armed.file, &armed.text, false));
    let steps = scenario.steps.iter().filter_map(|step| {
        Some(match &step.value {
            Step::Write(step) => write(step.write.as_str(), &step.text, false),
            Step::Hook(step) => format!("hook: {:?}", step.hook.as_str()),
            Step::Workload(_) => format!("workload: {PROGRAM}"),
            Step::MakeDirectory(_) => "mkdir".to_owned(),
            Step::Load(_) | Step::LoadModule(_) => "load".to_owned(),
            Step::Unload(_) => "unload".to_owned(),
            _ => return None,
        })
    });
    directories.chain(armed).chain(steps).map(|step| action(&step)).collect()
}

/// Returns what a step does, without the names and numbers in it.
fn action(step: &str) -> String {
    let (what, rest) = step.split_once(": ").unwrap_or((step, ""));
    match (what, rest.split_once(", text: ")) {
        ("write", Some((file, text))) => {
            written(file.trim_matches('"'), text.strip_prefix('"').unwrap_or(text))
        }
        ("hook", _) => match rest.trim_matches('"').split_once(' ') {
            Some((name, _)) if name.starts_with('+') => "hook +".to_owned(),
            Some((_, change)) => format!("hook {}", leading(change)),
            None => "hook -".to_owned(),
        },
        ("workload", _) => format!("workload {}", leading(rest)),
        _ => what.to_owned(),
    }
}

/// Returns what a write does to a file of tracefs, at the top level or in a tracing instance.
fn written(file: &str, text: &str) -> String {
    let file =
        file.strip_prefix("instances/").and_then(|rest| rest.split_once('/')).map_or(file, |(_, file)| file);
    let (directory, name) = file.rsplit_once('/').unwrap_or(("", file));
    let (name, does) = match name {
        "synthetic_events" => ("dynamic_events", "s".to_owned()),
        "dynamic_events" | "kprobe_events" | "uprobe_events" => {
            let of = if text.contains(" /") { " of a program" } else { "" };
            ("dynamic_events", format!("{}{of}", leading(text)))
        }
        "trigger" | "enable" | "tracing_on" | "current_tracer" => (name, leading(text).to_owned()),
        "set_ftrace_filter" => {
            let undo = if text.starts_with('!') { "!" } else { "" };
            (name, format!("{undo}{}", text.split(':').nth(1).map(leading).unwrap_or_default()))
        }
        // Nothing and 0 undo what something else does.
        _ => (name, text.starts_with(['"', '0']).to_string()),
    };
    // Of an event, of a group, or of all events.
    format!("{} {name} {does}", directory.split('/').count())
}

/// Returns a text up to its first name or number.
fn leading(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_ascii_alphabetic() || "!-_".contains(c)));
    match &text[..end.unwrap_or(text.len())] {
        "" => text.get(..1).unwrap_or_default(),
        leading => leading,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::find;
    use std::path::Path;

    fn facts() -> Facts {
        Facts { offsets: Some([1, 2]), syscalls: true, eprobes: true, synthetic: true, ..Facts::default() }
    }

    fn seeds_of(steps: &str) -> Vec<Vec<Operation>> {
        let scenario = Scenario::parse(Path::new("s.yaml"), &format!("summary: s\n{steps}")).unwrap();
        seeds(facts(), [&scenario])
    }

    #[test]
    fn a_seed_does_what_its_scenario_does() {
        let trace = "trace: { events: [{ kprobe: vfs_write, name: mine, filter: count > 1 }] }";
        let steps = "steps:\n\
            - { workload: calls }\n\
            - { mkdir: instances/mine }\n\
            - { write: instances/mine/events/kprobes/mine/trigger, text: 'hist:keys=common_pid', append: true }\n\
            - { hook: '+w symbol=vfs_read flags=ipmodify' }\n\
            - { read: enabled_functions }\n\
            - { write: kprobe_events, text: '-:mine', append: true, errno: EBUSY }\n";
        let seeds = seeds_of(&format!("{trace}\n{steps}"));
        let mut model = Model::new(facts());
        let done = seeds[0].iter().map(|operation| {
            assert!(operation.is_known(&model), "{operation:?}");
            let step = operation.steps(&model)[0].clone();
            let _ = operation.apply(&mut model);
            action(&step)
        });
        assert_eq!(
            done.collect::<Vec<_>>(),
            [
                "1 dynamic_events p",
                "3 filter false",
                "3 enable 1",
                "workload counter",
                "mkdir",
                "3 trigger hist",
                "hook +",
                "1 dynamic_events -"
            ]
        );
    }

    #[test]
    fn what_has_no_operation_is_left_out() {
        assert!(seeds_of("steps:\n- { write: uprobe_profile, text: x }\n- { workload: calls }\n").is_empty());
    }

    #[test]
    fn most_scenarios_have_a_seed() {
        let files = find(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios")), &[]).unwrap();
        let scenarios: Vec<_> = files.iter().map(|file| Scenario::load(&file.path).unwrap()).collect();
        let seeds = seeds(facts(), &scenarios);
        assert!(seeds.len() > scenarios.len() / 2, "{} of {}", seeds.len(), scenarios.len());
    }
}
