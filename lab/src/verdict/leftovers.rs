//! Which leftovers fail a scenario: those of modules that are no longer loaded, of scripts and selftests.

use crate::{
    recording::{Leftover, LeftoverKind, Recording},
    scenario::{HOOK_MODULE, Pattern, Scenario, Step},
};

/// Returns the leftovers that fail the scenario, unless `may_leave:` lists them.
pub(super) fn failing<'a>(
    scenario: &'a Scenario,
    recording: &'a Recording,
) -> impl Iterator<Item = &'a Leftover> {
    let unloaded = modules_are_unloaded(scenario, recording);
    let declared = |leftover: &Leftover| {
        let text = leftover.to_string();
        scenario.may_leave.iter().any(|pattern| pattern.0.is_match(&text))
    };
    let fails = move |leftover: &&Leftover| {
        let of_module = unloaded && is_of_module(leftover.kind);
        (of_module || is_abandoned(leftover, scenario, recording)) && !declared(leftover)
    };
    recording.leftovers.iter().filter(fails)
}

/// Returns the patterns of `may_leave:` that no leftover matches.
pub(super) fn unmatched<'a>(
    scenario: &'a Scenario,
    recording: &'a Recording,
) -> impl Iterator<Item = &'a str> {
    let texts: Vec<String> = recording.leftovers.iter().map(Leftover::to_string).collect();
    let matches = move |pattern: &&Pattern| texts.iter().any(|text| pattern.0.is_match(text));
    scenario.may_leave.iter().filter(move |pattern| !matches(pattern)).map(|pattern| pattern.0.as_str())
}

/// Returns whether the step that left it is over: a script, a selftest, or the load of a module that is not
/// loaded any more.
fn is_abandoned(leftover: &Leftover, scenario: &Scenario, recording: &Recording) -> bool {
    // A module that remains is loaded on purpose, and taint remains in any case.
    if matches!(leftover.kind, LeftoverKind::Module | LeftoverKind::Taint) {
        return false;
    }
    let step = leftover.step.and_then(|number| scenario.steps.get(number.checked_sub(1)?));
    match step.map(|step| &step.value) {
        None => false,
        Some(Step::Load(_) | Step::LoadModule(_)) => {
            let is_its_module =
                |other: &Leftover| other.kind == LeftoverKind::Module && other.step == leftover.step;
            !recording.leftovers.iter().any(is_its_module)
        }
        Some(_) => true,
    }
}

/// Returns whether the scenario loads modules and none of them is loaded any more. A module may hook and
/// probe while it is loaded.
fn modules_are_unloaded(scenario: &Scenario, recording: &Recording) -> bool {
    let is_module = |leftover: &Leftover| leftover.kind == LeftoverKind::Module;
    !scenario.modules().is_empty()
        && !recording.modules.contains(HOOK_MODULE)
        && !recording.leftovers.iter().any(is_module)
}

/// Returns whether a module must remove such a thing before it is unloaded.
fn is_of_module(kind: LeftoverKind) -> bool {
    use LeftoverKind::{Hook, Instance, Kprobe, Probe, Tracer};
    matches!(kind, Hook | Instance | Kprobe | Probe | Tracer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use LeftoverKind::{Hook, Instance, Module, Probe, Taint, Tracer};
    use std::path::Path;

    const LOADED: &str = "steps: [ { load: m }, { unload: m } ]";

    fn check(yaml: &str, modules: &[&str], leftovers: &[(LeftoverKind, &str)], expect: &[&str]) {
        let scenario = Scenario::parse(Path::new("x.yaml"), &format!("summary: x\n{yaml}")).unwrap();
        let leftover = |(kind, entry): &(LeftoverKind, &str)| Leftover {
            kind: *kind,
            entry: (*entry).into(),
            step: None,
        };
        let recording = Recording {
            leftovers: leftovers.iter().map(leftover).collect(),
            modules: modules.iter().map(|&module| module.to_owned()).collect(),
            ..Recording::default()
        };
        let failing: Vec<_> = failing(&scenario, &recording).map(Leftover::to_string).collect();
        assert_eq!(failing, expect, "{yaml}");
    }

    #[test]
    fn a_hook_fails_when_its_module_is_gone() {
        let hook = (Hook, "vfs_write (1) R I");
        check(LOADED, &[], &[hook], &["hook vfs_write (1) R I"]);
        check(LOADED, &["m"], &[hook, (Module, "m")], &[]);
        check("steps: [ { write: kprobe_events, text: x } ]", &[], &[hook], &[]);
        check(LOADED, &[], &[(Instance, "i"), (Tracer, "function")], &["instance i", "tracer function"]);
    }

    #[test]
    fn the_module_of_hooks_is_in_before_the_first_step() {
        let hook = (Hook, "vfs_write (1) O");
        let steps = "steps: [ { hook: +w symbol=vfs_write }, { unload: ftracehook } ]";
        check(steps, &["ftracehook"], &[hook], &[]);
        check(steps, &[], &[hook], &["hook vfs_write (1) O"]);
    }

    #[test]
    fn a_step_that_is_over_leaves_nothing() {
        let check = |step: Option<usize>, leftovers: &[(LeftoverKind, Option<usize>)], expect: bool| {
            let yaml =
                "summary: x\nuserland: debian\nsteps: [ { load: m }, { load: n }, { unload: m }, { sh: x } ]";
            let scenario = Scenario::parse(Path::new("x.yaml"), yaml).unwrap();
            let left =
                |(kind, step): &(LeftoverKind, _)| Leftover { kind: *kind, entry: "x".into(), step: *step };
            let leftovers = [(Hook, step)].iter().chain(leftovers).map(left).collect();
            let recording = Recording { leftovers, ..Recording::default() };
            assert_eq!(failing(&scenario, &recording).count() == 1, expect, "{step:?}");
        };
        // The module of step 2 is still loaded, that of step 1 is not.
        let loaded = &[(Module, Some(2))];
        check(None, loaded, false);
        check(Some(2), loaded, false);
        check(Some(1), loaded, true);
        check(Some(3), loaded, true);
        check(Some(4), loaded, true);
        check(Some(9), loaded, false);
    }

    #[test]
    fn a_declaration_that_matches_nothing_is_found() {
        let yaml = "summary: x\nsteps: [ { read: trace } ]\nmay_leave: ['^probe', hook]";
        let scenario = Scenario::parse(Path::new("x.yaml"), yaml).unwrap();
        let leftovers = vec![Leftover { kind: Hook, entry: "f".into(), step: None }];
        let recording = Recording { leftovers, ..Recording::default() };
        assert_eq!(unmatched(&scenario, &recording).collect::<Vec<_>>(), ["^probe"]);
    }

    #[test]
    fn what_is_declared_does_not_fail() {
        let probe = (Probe, "p:deaths/left vfs_write");
        check(&format!("{LOADED}\nmay_leave: ['^probe p:deaths/']"), &[], &[probe], &[]);
        check(
            &format!("{LOADED}\nmay_leave: [hook]"),
            &[],
            &[probe, (Taint, "WO")],
            &["probe p:deaths/left vfs_write"],
        );
    }
}
