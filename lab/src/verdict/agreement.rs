//! `agrees:`, events beside what another tool printed of them.
//!
//! Both sides become rows of the same fields. Whatever one has and the other has not is a
//! disagreement: a value, a row, or a field that is not there.

use super::{
    finding::{After, Evaluate, Finding},
    observed::{Observed, describe, literal, lookup},
    selector::Selector,
};
use crate::scenario::{Agrees, Errno, FromText, Literal, excerpt};

/// More events than anybody compares with a tool's output, which is capped itself.
const ROWS_MAX: usize = 20_000;

/// Characters that are shown of a line.
const SHOWN: usize = 300;

/// What a step of a scenario wrote to stdout.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// The text.
    pub text: String,
    /// Whether that is all of it.
    pub whole: bool,
}

/// An event, or a line: its values in the order of the groups, and how it is shown.
struct Row<V> {
    values: Vec<Option<V>>,
    shown: String,
}

/// An `agrees` at work.
pub(super) struct Agreement {
    agrees: Agrees,
    selectors: Vec<Selector>,
    groups: Vec<String>,
    events: Vec<Row<Literal>>,
    /// There were more than [`ROWS_MAX`].
    crowded: bool,
}

impl Agreement {
    pub(super) fn new(agrees: &Agrees) -> Agreement {
        let selector = |event| Selector::new(event, agrees.condition.as_ref());
        Agreement {
            selectors: agrees.events.iter().map(selector).collect(),
            groups: agrees.lines.groups().map(str::to_owned).collect(),
            agrees: agrees.clone(),
            events: Vec::new(),
            crowded: false,
        }
    }

    /// The lines that tell of an event.
    fn lines(&self, text: &str) -> Vec<Row<String>> {
        let row = |(index, line): (usize, &str)| {
            let found = self.agrees.lines.0.0.captures(line)?;
            let value = |group: &String| found.name(group).map(|found| found.as_str().to_owned());
            let shown = format!("line {}: {}", index + 1, excerpt(line, SHOWN));
            Some(Row { values: self.groups.iter().map(value).collect(), shown })
        };
        text.lines().enumerate().filter_map(row).collect()
    }

    /// Puts rows that need not be in one another's order one behind the other, on both sides alike.
    fn order(&self, events: &mut [Row<Literal>], lines: &mut [Row<String>]) {
        let by = self.agrees.by.as_ref();
        let Some(by) = by.and_then(|by| self.groups.iter().position(|group| *group == **by)) else { return };
        let as_literal = |text: &String| number(text).map_or(Literal::Text(text.clone()), Literal::Int);
        events.sort_by_cached_key(|row| row.values[by].clone());
        lines.sort_by_cached_key(|row| row.values[by].as_ref().map(as_literal));
    }

    /// Where a line and the event in its place are not the same.
    fn difference(&self, line: &Row<String>, event: &Row<Literal>) -> Option<String> {
        let values = self.groups.iter().zip(line.values.iter().zip(&event.values));
        let (group, (said, found)) = values.into_iter().find(|(_, (said, found))| !agree(said, found))?;
        let absent = || "no such field".to_owned();
        let said = said.as_ref().map_or_else(absent, |said| format!("`{}`", excerpt(said, SHOWN)));
        let found = found.as_ref().map_or_else(absent, Literal::to_string);
        Some(format!("`{group}` is {said} in the output and {found} in the trace"))
    }

    /// Why the output cannot be compared.
    fn incomparable(&self, said: Option<&Said>, lines: &[Row<String>]) -> Option<String> {
        let step = self.agrees.step;
        if let Some(error) = self.selectors.iter().find_map(Selector::error) {
            return Some(error);
        }
        let Some(said) = said else { return Some(format!("step {step} left no stdout")) };
        if !said.whole {
            return Some(format!("of the stdout of step {step} a part was dropped"));
        }
        if self.crowded {
            return Some(format!("there are more than {ROWS_MAX} events, expected a `where` of less"));
        }
        if lines.is_empty() {
            let text = excerpt(&said.text, SHOWN);
            return Some(format!("no line of the stdout of step {step} tells of an event; it is \"{text}\""));
        }
        let unused =
            |(index, _): &(usize, &String)| lines.iter().all(|line: &Row<_>| line.values[*index].is_none());
        let (_, group) = self.groups.iter().enumerate().find(unused)?;
        Some(format!("`{group}` has no part in any of the {} lines that match", lines.len()))
    }
}

/// The number that a text is. A hexadecimal one is so many bits, whatever their sign.
fn number(text: &str) -> Option<i128> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok().map(i128::from),
        None => match text.parse() {
            Ok(number) => Some(number),
            Err(_) => Errno::from_text(text).ok().map(|errno| -i128::from(errno.number())),
        },
    }
}

/// Whether a tool's word for a value means that of the event.
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

    /// Events that cannot come of the lines by leaving some out disagree for certain; all others,
    /// even those that agree, a lost event could change.
    fn finish(mut self: Box<Self>, after: &After<'_>) -> Finding {
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
            (Some(line), _) => format!("the output has one that the trace has not\n  {}", line.shown),
            (_, Some(event)) => {
                format!("the trace has one that the output has not\n  {}", event.shown)
            }
            (None, None) => return Finding::passed(found),
        };
        let explain: String = self.selectors.iter().map(Selector::explain).collect();
        Finding::failed(format!("{found}; {one_more}{explain}"))
    }
}
