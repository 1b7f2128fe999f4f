//! Which leftovers fail a scenario: what a module must remove before it is unloaded.

use crate::{
    recording::{Leftover, LeftoverKind, Recording},
    scenario::{HOOK_MODULE, Scenario},
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
    recording
        .leftovers
        .iter()
        .filter(move |leftover| unloaded && is_of_module(leftover.kind) && !declared(leftover))
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
        let leftover =
            |(kind, entry): &(LeftoverKind, &str)| Leftover { kind: *kind, entry: (*entry).into() };
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
