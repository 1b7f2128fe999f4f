//! Hook steps: commands to the module that hooks functions, and what came of them.

use super::{CHUNK, Recorder, enabled, read, steps::check_errno, unexpected};
use crate::{
    machine::Death,
    scenario::{EnabledFunctions, HOOK_MODULE, Hits, Hook, Scenario, Wanted, nearest},
};
use protocol::{Reply, Request, WriteMode};

const CONTROL: &str = "/sys/kernel/debug/ftracehook/control";
const HITS: &str = "/sys/kernel/debug/ftracehook/hits";

impl Recorder<'_> {
    /// Brings the module in, if the scenario hooks anything and the machine does not have it from the
    /// start: its events are to be armed. `Some` says why it cannot be loaded.
    pub(super) fn load_hooks(&mut self, scenario: &Scenario) -> Result<Option<String>, Death> {
        if !scenario.hooks() {
            return Ok(None);
        }
        let wanted = Wanted::Named(HOOK_MODULE.into());
        if self.is_in(&wanted)? {
            return Ok(None);
        }
        let failures = self.load(&wanted, None, None)?;
        Ok((!failures.is_empty()).then(|| format!("cannot load `{HOOK_MODULE}`: {}", failures.join("\n"))))
    }

    pub(super) fn hook(&mut self, step: &Hook) -> Result<Vec<String>, Death> {
        let data = format!("{}\n", step.hook).into_bytes();
        let reply = self.call(&Request::WriteFile { path: CONTROL.into(), data, mode: WriteMode::Append })?;
        let mut failures = Vec::new();
        check_errno(step.errno, Some(&reply), &mut failures);
        Ok(failures)
    }

    pub(super) fn hits(&mut self, step: &Hits) -> Result<Vec<String>, Death> {
        let text = match self.call(&read(HITS))? {
            Reply::Data(data) => String::from_utf8_lossy(&data).into_owned(),
            Reply::Errno { what, .. } => return Ok(vec![format!("no hooks are there: {what}")]),
            other => return Err(unexpected("the hits of hooks", &other)),
        };
        Ok(check_hits(step, &text))
    }

    /// `found` becomes what the file says of the function.
    pub(super) fn enabled_functions(
        &mut self,
        step: &EnabledFunctions,
        found: &mut String,
    ) -> Result<Vec<String>, Death> {
        let data = match self.call(&read("enabled_functions"))? {
            Reply::Data(data) => data,
            Reply::Errno { what, .. } => {
                return Ok(vec![format!("`enabled_functions` cannot be read: {what}")]);
            }
            other => return Err(unexpected("the enabled functions", &other)),
        };
        // What is not in the first part may be in the rest.
        if data.len() >= CHUNK {
            return Ok(vec!["`enabled_functions` is too long to be read; a filter makes it shorter".into()]);
        }
        let text = String::from_utf8_lossy(&data);
        *found = enabled::found(step, &text);
        Ok(enabled::check(step, &text).into_iter().collect())
    }
}

/// `NAME HITS MISSES`, a line a hook.
fn check_hits(step: &Hits, text: &str) -> Vec<String> {
    let lines = || text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let name = step.hits.0.as_str();
    let Some(line) = lines().find(|line| line.first() == Some(&name)) else {
        let names: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
        let near = nearest(name, names).map(|near| format!("; the nearest is `{near}`"));
        return vec![format!("no hook is called `{name}`{}", near.unwrap_or_default())];
    };
    let mut failures = Vec::new();
    for (what, index, amount) in [("hits", 1, step.count), ("misses", 2, step.misses)] {
        let Some(number) = line.get(index).and_then(|number| number.parse().ok()) else {
            return vec![format!("the {what} of `{name}` are no number: `{}`", line.join(" "))];
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
    use crate::scenario::Step;
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
        check("write, count: 5", "write", &["the hits of `write` are no number: `write`"]);
    }
}
