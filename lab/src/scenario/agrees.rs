//! `agrees:`, another tool's word on the events of the trace.

use super::{
    Step,
    check::Pattern,
    defined::Use,
    event_ref::EventRef,
    locate::At,
    names::Line,
    nearest::unknown,
    semantic::{Checked, Scope, below, problem},
    text::{FromText, from_text},
};
use crate::verdict::Condition;
use schemars::JsonSchema;
use serde::Deserialize;

/// Another tool says the same: the lines that it printed tell of these very events, one line an
/// event, with the same values in the same order.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Agrees {
    /// The step whose stdout the lines are in, counted from 1.
    #[schemars(range(min = 1))]
    pub step: usize,
    /// What a line looks like that tells of an event; any other line tells of none. Its named groups
    /// are the fields that are compared. A number may be written in decimal, in hexadecimal (`0x1c`),
    /// or by the name of an errno: `ENOENT` is -2. A group that has no part in a match says that the
    /// event has no such field.
    pub lines: LinePattern,
    /// The events, each NAME or GROUP:NAME.
    pub events: Vec<EventRef>,
    /// Only those events for which this CEL condition holds.
    #[serde(default, rename = "where")]
    pub condition: Option<Condition>,
    /// One of the groups: only lines with the same value of it are in the order of the trace, as in
    /// an output that has one process behind the other. Default: all are.
    #[serde(default)]
    pub by: Option<Line>,
}

/// A regular expression for a line, with at least one named group.
#[derive(Clone, Debug, PartialEq)]
pub struct LinePattern(pub Pattern);

impl LinePattern {
    /// The names of its groups.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.0.0.capture_names().flatten()
    }
}

impl FromText for LinePattern {
    const EXPECTED: &'static str = "a regular expression with named groups";

    fn from_text(text: &str) -> Result<LinePattern, String> {
        let pattern = LinePattern(Pattern::from_text(text)?);
        if pattern.groups().next().is_none() {
            return Err("no named group, expected those of the fields, as in `ret=(?<ret>\\S+)`".to_owned());
        }
        Ok(pattern)
    }
}

from_text!(LinePattern, { "type": "string", "format": "regex" });

impl Scope<'_> {
    /// A field that one of the events has is a field: the others' lines do without.
    pub(super) fn check_agrees(&self, agrees: &Agrees, path: &[At]) -> Checked {
        let says = |step: &Step| matches!(step, Step::Workload(_) | Step::Shell(_));
        let step = agrees.step.checked_sub(1).and_then(|index| self.document.steps.get(index));
        // Those of a matrix come before these.
        if self.document.matrix.is_none() && !step.is_some_and(says) {
            let message = format!("step {} has no stdout, expected one of `workload` or `sh`", agrees.step);
            return problem(&below(path, At::Key("step")), message);
        }
        if agrees.events.is_empty() {
            return problem(&below(path, At::Key("events")), "no events, expected at least one");
        }
        for event in &agrees.events {
            let condition = agrees.condition.as_ref();
            self.check_use(&Use { event, condition, path: path.to_vec(), bound: &[] })?;
        }
        for group in agrees.lines.groups() {
            let path = below(path, At::Key("lines"));
            let checks = agrees.events.iter().map(|event| self.check_field(event, group, &path));
            checks.reduce(|one, other| one.or_else(|first| other.map_err(|_| first))).unwrap_or(Ok(()))?;
        }
        let groups: Vec<&str> = agrees.lines.groups().collect();
        match &agrees.by {
            Some(by) if !groups.contains(&&**by) => {
                problem(&below(path, At::Key("by")), unknown("group of `lines`:", by, &groups))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::scenario::Scenario;
    use std::path::Path;

    #[track_caller]
    fn check(agrees: &str, expect: Result<(), &str>) {
        let yaml = format!(
            "summary: x
trace: {{ events: [ {{ kprobe: f, name: call, args: {{ a: $arg1 }} }}, {{ kretprobe: f, name: ret, args: {{ r: $retval }} }} ] }}
steps: [ {{ workload: w }}, {{ write: x, text: y }} ]
expect: [ {{ agrees: {{ {agrees} }} }} ]"
        );
        let found = Scenario::parse(Path::new("x.yaml"), &yaml).map(drop).map_err(|error| error.to_string());
        match (&found, expect) {
            (Ok(()), Ok(())) => {}
            (Err(found), Err(expect)) if found.contains(expect) => {}
            _ => panic!("{agrees}: {found:?}, expected {expect:?}"),
        }
    }

    #[test]
    fn lines_are_compared_by_fields_that_events_have() {
        check(r"step: 1, lines: '(?<a>\d+)|(?<r>\d+)', events: [call, ret]", Ok(()));
        check(r"step: 1, lines: '(?<pid>\d+) (?<a>\d+)', events: [call], by: pid, where: a > 1", Ok(()));
        check(r"step: 1, lines: '(?<b>\d+)', events: [call, ret]", Err("unknown field of `call`: `b`"));
        check(r"step: 1, lines: '(?<r>\d+)', events: [call]", Err("unknown field of `call`: `r`"));
        check(r"step: 1, lines: '\d+', events: [call]", Err("no named group"));
        check(r"step: 1, lines: '(?<a>', events: [call]", Err("bad regular expression"));
        check(r"step: 1, lines: '(?<a>\d+)', events: []", Err("no events"));
        check(r"step: 1, lines: '(?<a>\d+)', events: [cal]", Err("unknown event `cal`"));
        check(r"step: 1, lines: '(?<a>\d+)', events: [call], where: b > 1", Err("unknown field"));
        check(
            r"step: 1, lines: '(?<a>\d+)', events: [call], by: pid",
            Err("unknown group of `lines`: `pid`"),
        );
    }

    #[test]
    fn only_what_runs_a_program_has_a_stdout() {
        for step in ["0", "2", "3"] {
            let agrees = format!(r"step: {step}, lines: '(?<a>\d+)', events: [call]");
            check(&agrees, Err("has no stdout"));
        }
    }
}
