//! `matches_output:`, events compared with the output of a tool about them.
//!
//! Both sides become rows of the same fields. Anything that only one side has is a disagreement: a value,
//! a row or a field.

use super::{
    finding::{EndState, Evaluate, Finding},
    observed::{Observed, describe, literal, lookup},
    selector::Selector,
};
use crate::{
    recording::StepStdout,
    scenario::{Errno, FromText, Literal, MatchesOutput},
    words::excerpt,
};

/// The maximum number of events. A tool's output is capped, too, and does not have as many lines.
const ROWS_MAX: usize = 20_000;

/// The maximum length of a line that is shown, in characters.
const SHOWN: usize = 300;

/// An event or a line: its values in the order of the groups, and its text in messages.
struct Row<V> {
    values: Vec<Option<V>>,
    shown: String,
}

/// Evaluates `matches_output:`.
pub(super) struct Agreement {
    agrees: MatchesOutput,
    selectors: Vec<Selector>,
    groups: Vec<String>,
    events: Vec<Row<Literal>>,
    /// There were more events than [`ROWS_MAX`].
    crowded: bool,
}

impl Agreement {
    pub(super) fn new(agrees: &MatchesOutput) -> Agreement {
        let selector = |event| Selector::new(event, agrees.condition.as_ref());
        Agreement {
            selectors: agrees.events.iter().map(selector).collect(),
            groups: agrees.lines.groups().map(str::to_owned).collect(),
            agrees: agrees.clone(),
            events: Vec::new(),
            crowded: false,
        }
    }

    /// Returns the lines that match.
    fn lines(&self, text: &str) -> Vec<Row<String>> {
        let row = |(index, line): (usize, &str)| {
            let found = self.agrees.lines.0.0.captures(line)?;
            let value = |group: &String| found.name(group).map(|found| found.as_str().to_owned());
            let shown = format!("line {}: {}", index + 1, excerpt(line, SHOWN));
            Some(Row { values: self.groups.iter().map(value).collect(), shown })
        };
        text.lines().enumerate().filter_map(row).collect()
    }

    /// Sorts both sides by the field of `by:`, if their orders may differ.
    fn order(&self, events: &mut [Row<Literal>], lines: &mut [Row<String>]) {
        let by = self.agrees.by.as_ref();
        let Some(by) = by.and_then(|by| self.groups.iter().position(|group| *group == **by)) else { return };
        let as_literal = |text: &String| number(text).map_or(Literal::Text(text.clone()), Literal::Int);
        events.sort_by_cached_key(|row| row.values[by].clone());
        lines.sort_by_cached_key(|row| row.values[by].as_ref().map(as_literal));
    }

    /// Says how a line and the event at its place differ.
    fn difference(&self, line: &Row<String>, event: &Row<Literal>) -> Option<String> {
        let values = self.groups.iter().zip(line.values.iter().zip(&event.values));
        let (group, (said, found)) = values.into_iter().find(|(_, (said, found))| !agree(said, found))?;
        let absent = || "no such field".to_owned();
        let said = said.as_ref().map_or_else(absent, |said| format!("`{}`", excerpt(said, SHOWN)));
        let found = found.as_ref().map_or_else(absent, Literal::to_string);
        Some(format!("`{group}` is {said} in the output and {found} in the trace"))
    }

    /// Says why the output cannot be compared.
    fn incomparable(&self, said: Option<&StepStdout>, lines: &[Row<String>]) -> Option<String> {
        let step = self.agrees.step;
        if let Some(error) = self.selectors.iter().find_map(Selector::error) {
            return Some(error);
        }
        let Some(said) = said else { return Some(format!("step {step} left no stdout")) };
        if !said.whole {
            return Some(format!("a part of the stdout of step {step} was dropped"));
        }
        if self.crowded {
            return Some(format!(
                "there are more than {ROWS_MAX} events, expected a `where` that selects fewer"
            ));
        }
        if lines.is_empty() {
            let text = excerpt(&said.text, SHOWN);
            return Some(format!("no line of the stdout of step {step} matches; it is \"{text}\""));
        }
        let unused =
            |(index, _): &(usize, &String)| lines.iter().all(|line: &Row<_>| line.values[*index].is_none());
        let (_, group) = self.groups.iter().enumerate().find(unused)?;
        Some(format!("`{group}` is in none of the {} lines that match", lines.len()))
    }
}

/// Parses a number, or the name of an errno as its negative number. A hexadecimal number has up to 64 bits.
fn number(text: &str) -> Option<i128> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok().map(i128::from),
        None => match text.parse() {
            Ok(number) => Some(number),
            Err(_) => Errno::from_text(text).ok().map(|errno| -i128::from(errno.number())),
        },
    }
}

/// Returns whether a tool's word for a value means the value of the event.
fn agree(said: &Option<String>, found: &Option<Literal>) -> bool {
    match (said, found) {
        (None, None) => true,
        (Some(said), Some(Literal::Text(found))) => said == found,
        (Some(said), Some(Literal::Int(found))) => {
            let bits = said.starts_with("0x") && *found < 0;
            let found = if bits { found + (1 << 64) } else { *found };
            number(said) == Some(found)
        }
        _ => false,
    }
}

impl Evaluate for Agreement {
    fn wants(&self, group: &str, name: &str) -> bool {
        self.selectors.iter().any(|selector| selector.wants(group, name))
    }

    fn observe(&mut self, event: &dyn Observed) {
        if !self.selectors.iter_mut().any(|selector| selector.matches(event, &[])) {
            return;
        }
        if self.events.len() == ROWS_MAX {
            self.crowded = true;
            return;
        }
        let value = |field: &String| lookup(event, field).map(|value| literal(&value));
        let values = self.groups.iter().map(value).collect();
        self.events.push(Row { values, shown: describe(event) });
    }

    /// With losses, events that are not a subsequence of the lines fail; any others are inconclusive, even
    /// if they agree.
    fn finish(mut self: Box<Self>, after: &EndState<'_>) -> Finding {
        let said = after.outputs.get(&self.agrees.step);
        let mut lines = said.map(|said| self.lines(&said.text)).unwrap_or_default();
        if let Some(reason) = self.incomparable(said, &lines) {
            return Finding::failed(reason);
        }
        let mut events = std::mem::take(&mut self.events);
        self.order(&mut events, &mut lines);
        let found = format!("{} lines, {} events", lines.len(), events.len());
        if after.losses.any() {
            let mut rest = lines.iter();
            let left = |event| rest.any(|line| self.difference(line, event).is_none());
            if events.iter().all(left) {
                return after.inconclusive(&found);
            }
        }
        let both = lines.iter().zip(&events);
        let differing = both.map(|(line, event)| (line, event, self.difference(line, event)));
        let differing = differing.into_iter().find_map(|(line, event, found)| Some((line, event, found?)));
        if let Some((line, event, difference)) = differing {
            return Finding::failed(format!(
                "{found}; the first that differ: {difference}\n  {}\n  {}",
                line.shown, event.shown
            ));
        }
        let one_more = match (lines.get(events.len()), events.get(lines.len())) {
            (Some(line), _) => format!("only in the output:\n  {}", line.shown),
            (_, Some(event)) => {
                format!("only in the trace:\n  {}", event.shown)
            }
            (None, None) => return Finding::passed(found),
        };
        let explain: String = self.selectors.iter().map(Selector::explain).collect();
        Finding::failed(format!("{found}; {one_more}{explain}"))
    }
}

#[cfg(test)]
#[path = "agreement_tests.rs"]
mod tests;
