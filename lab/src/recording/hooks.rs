//! Hook steps: commands to the module that hooks functions, and their effects.

use super::{
    checks::check_errno,
    enabled,
    link::{CHUNK, Link, read, unexpected},
    notes::StepNotes,
};
use crate::{
    machine::Death,
    scenario::{EnabledFunctions, Hits, Hook},
    words::nearest_is,
};
use protocol::{Reply, Request, WriteMode};

const CONTROL: &str = "/sys/kernel/debug/ftracehook/control";
const HITS: &str = "/sys/kernel/debug/ftracehook/hits";

/// Writes a command to the module.
pub(super) fn hook(link: &mut Link<'_>, step: &Hook) -> Result<Vec<String>, Death> {
    let data = format!("{}\n", step.hook).into_bytes();
    let reply = link.call(&Request::WriteFile { path: CONTROL.into(), data, mode: WriteMode::Append })?;
    let mut failures = Vec::new();
    check_errno(step.errno, Some(&reply), &mut failures);
    Ok(failures)
}

/// Checks the counters of a hook.
pub(super) fn hits(link: &mut Link<'_>, step: &Hits) -> Result<Vec<String>, Death> {
    let text = match link.call(&read(HITS))? {
        Reply::Data(data) => String::from_utf8_lossy(&data).into_owned(),
        Reply::Errno { what, .. } => return Ok(vec![format!("cannot read the hit counters: {what}")]),
        other => return Err(unexpected("the hits of hooks", &other)),
    };
    Ok(check_hits(step, &text))
}

/// Checks the entry of a function in `enabled_functions`.
pub(super) fn enabled_functions(
    link: &mut Link<'_>,
    notes: &mut StepNotes<'_>,
    step: &EnabledFunctions,
) -> Result<Vec<String>, Death> {
    let data = match link.call(&read("enabled_functions"))? {
        Reply::Data(data) => data,
        Reply::Errno { what, .. } => {
            return Ok(vec![format!("cannot read `enabled_functions`: {what}")]);
        }
        other => return Err(unexpected("the enabled functions", &other)),
    };
    // A function that is not in the first part may be in the rest.
    if data.len() >= CHUNK {
        return Ok(vec!["`enabled_functions` is too long; a filter makes it shorter".into()]);
    }
    let text = String::from_utf8_lossy(&data);
    notes.found = enabled::found(step, &text);
    Ok(enabled::check(step, &text).into_iter().collect())
}

/// Checks a file with the line `NAME HITS MISSES` per hook.
fn check_hits(step: &Hits, text: &str) -> Vec<String> {
    let lines = || text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let name = step.hits.0.as_str();
    let Some(line) = lines().find(|line| line.first() == Some(&name)) else {
        let names = text.lines().filter_map(|line| line.split(' ').next());
        return vec![format!("no hook is called `{name}`{}", nearest_is(name, names))];
    };
    let mut failures = Vec::new();
    for (what, index, amount) in [("hits", 1, step.count), ("misses", 2, step.misses)] {
        let Some(number) = line.get(index).and_then(|number| number.parse().ok()) else {
            return vec![format!("the {what} of `{name}` are not a number: `{}`", line.join(" "))];
        };
        if let Some(amount) = amount.filter(|amount| !amount.allows(number)) {
            failures.push(format!("expected {amount} {what} of `{name}`, found {number}"));
        }
    }
    failures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Scenario, Step};
    use std::path::Path;

    #[test]
    fn hits_and_misses_are_those_of_the_hook() {
        let check = |fields: &str, text: &str, expect: &[&str]| {
            let yaml = format!("summary: x\nsteps: [ {{ hits: {fields} }} ]");
            let scenario = Scenario::parse(Path::new("x.yaml"), &yaml).unwrap();
            let Step::Hits(step) = &scenario.steps[0].value else { panic!("{yaml}") };
            assert_eq!(check_hits(step, text), expect, "{fields} in {text}");
        };
        let text = "write 5 0\nread 0 2\n";
        check("write, count: 5, misses: 0", text, &[]);
        check("write, count: 4", text, &["expected exactly 4 hits of `write`, found 5"]);
        check(
            "read, count: { at_least: 1 }, misses: 0",
            text,
            &["expected at least 1 hits of `read`, found 0", "expected exactly 0 misses of `read`, found 2"],
        );
        check("writ, count: 5", text, &["no hook is called `writ`; the nearest is `write`"]);
        check("write, count: 5", "write", &["the hits of `write` are not a number: `write`"]);
    }
}
