//! `matches_output:`, comparing the events of the trace with the output of another tool.

use crate::{
    scenario::{
        Condition, Step,
        read::{
            locate::PathSegment,
            scalar::{FromText, from_text},
        },
        semantic::{Checked, Scope, below, defined::Use, problem},
        values::{event_ref::EventRef, names::Line, string_check::Pattern},
    },
    words::unknown,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Requires that another tool printed the same events: one line per event, with the same values in the
/// same order.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MatchesOutput {
    /// The step whose stdout is compared, counted from 1.
    #[schemars(range(min = 1))]
    pub step: usize,
    /// Matches the lines that describe an event; all other lines are ignored. The named groups are the
    /// fields to compare. Numbers may be decimal, hexadecimal (`0x1c`), or the name of an errno:
    /// `ENOENT` is -2. A group that does not take part in a match means that the event does not have
    /// this field.
    pub lines: LinePattern,
    /// The events, each `NAME` or `GROUP:NAME`.
    pub events: Vec<EventRef>,
    /// Considers only events for which this CEL condition holds.
    #[serde(default, rename = "where")]
    pub condition: Option<Condition>,
    /// One of the groups: only lines that have the same value of it are compared in the order of the
    /// trace, for an output that lists one process after another. Default: all lines are.
    #[serde(default)]
    pub by: Option<Line>,
}

/// A regular expression for a line, with at least one named group.
#[derive(Clone, Debug, PartialEq)]
pub struct LinePattern(pub Pattern);

impl LinePattern {
    /// Returns the names of its groups.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.0.0.capture_names().flatten()
    }
}

impl FromText for LinePattern {
    const EXPECTED: &'static str = "a regular expression with named groups";

    fn from_text(text: &str) -> Result<LinePattern, String> {
        let pattern = LinePattern(Pattern::from_text(text)?);
        if pattern.groups().next().is_none() {
            return Err("no named group, expected one per field, as in `ret=(?<ret>\\S+)`".to_owned());
        }
        Ok(pattern)
    }
}

from_text!(LinePattern, { "type": "string", "format": "regex" });

impl Scope<'_> {
    /// Accepts a field if at least one of the events has it; the lines of other events do without it.
    pub(in crate::scenario) fn check_agrees(&self, agrees: &MatchesOutput, path: &[PathSegment]) -> Checked {
        let says = |step: &Step| matches!(step, Step::Workload(_) | Step::Shell(_));
        let step = agrees.step.checked_sub(1).and_then(|index| self.document.steps.get(index));
        // Steps of a matrix come before these.
        if self.document.matrix.is_none() && !step.is_some_and(says) {
            let message = format!("step {} has no stdout, expected one of `workload` or `sh`", agrees.step);
            return problem(&below(path, PathSegment::Key("step")), message);
        }
        if agrees.events.is_empty() {
            return problem(&below(path, PathSegment::Key("events")), "no events, expected at least one");
        }
        for event in &agrees.events {
            let condition = agrees.condition.as_ref();
            self.check_use(&Use { event, condition, path: path.to_vec(), bound: &[] })?;
        }
        for group in agrees.lines.groups() {
            let path = below(path, PathSegment::Key("lines"));
            let checks = agrees.events.iter().map(|event| self.check_field(event, group, &path));
            checks.reduce(|one, other| one.or_else(|first| other.map_err(|_| first))).unwrap_or(Ok(()))?;
        }
        let groups: Vec<&str> = agrees.lines.groups().collect();
        match &agrees.by {
            Some(by) if !groups.contains(&&**by) => {
                problem(&below(path, PathSegment::Key("by")), unknown("group of `lines`:", by, &groups))
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
expect: [ {{ matches_output: {{ {agrees} }} }} ]"
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
