//! `values:` and `set:`.

use super::{
    finding::{EndState, Evaluate, Finding},
    observed::{Observed, describe, equals, lookup, show},
    selector::Selector,
};
use crate::scenario::{Literal, Set, Values};

/// The maximum number of values of each list that are shown.
const SHOWN: usize = 40;

/// Formats a list of values on one line, truncated.
fn listed(values: &[String], total: u64) -> String {
    let left = total.saturating_sub(values.len() as u64);
    let more = if left > 0 { format!(", … ({left} more)") } else { String::new() };
    format!("[{}{more}]", values.join(", "))
}

fn literals(values: &[Literal]) -> String {
    let shown: Vec<_> = values.iter().take(SHOWN).map(Literal::to_string).collect();
    listed(&shown, values.len() as u64)
}

/// Says that an event lacks the field.
fn lacks(field: &str, event: &dyn Observed) -> String {
    let known: Vec<_> = event.fields().into_iter().map(|(name, _)| name.to_owned()).collect();
    let near = crate::words::nearest(field, known.iter().map(String::as_str));
    let near = near.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
    format!("the event has no field `{field}`{near}: {}", describe(event))
}

/// Evaluates `values:`, values in the order of the trace.
pub(super) struct Ordered {
    selector: Selector,
    field: String,
    expected: Vec<Literal>,
    found: u64,
    shown: Vec<String>,
    /// The position, from 0, and the event of the first unexpected value.
    difference: Option<(usize, String)>,
    /// The first position in `expected` of the next value, if values before it may be lost; `None` once the
    /// values are not a subsequence of the expected ones.
    lossy_next: Option<usize>,
    error: Option<String>,
}

impl Ordered {
    pub(super) fn new(values: &Values) -> Ordered {
        Ordered {
            selector: Selector::new(&values.event, values.condition.as_ref()),
            field: values.field.to_string(),
            expected: values.equal.clone(),
            found: 0,
            shown: Vec::new(),
            difference: None,
            lossy_next: Some(0),
            error: None,
        }
    }
}

impl Evaluate for Ordered {
    fn wants(&self, group: &str, name: &str) -> bool {
        self.selector.wants(group, name)
    }

    fn observe(&mut self, event: &dyn Observed) {
        if !self.selector.matches(event, &[]) {
            return;
        }
        let Some(value) = lookup(event, &self.field) else {
            self.error.get_or_insert_with(|| lacks(&self.field, event));
            return;
        };
        let position = usize::try_from(self.found).unwrap_or(usize::MAX);
        self.found += 1;
        if self.shown.len() < SHOWN {
            self.shown.push(show(event, &value));
        }
        let expected = self.expected.get(position);
        if self.difference.is_none() && !expected.is_some_and(|expected| equals(event, &value, expected)) {
            self.difference = Some((position, describe(event)));
        }
        self.lossy_next = self.lossy_next.and_then(|next| {
            let rest = self.expected.get(next..)?;
            Some(next + 1 + rest.iter().position(|expected| equals(event, &value, expected))?)
        });
    }

    /// With losses, values that are not a subsequence of the expected ones fail; any others are
    /// inconclusive.
    fn finish(self: Box<Self>, after: &EndState<'_>) -> Finding {
        if let Some(error) = self.error.or_else(|| self.selector.error()) {
            return Finding::failed(error);
        }
        let found = format!("found {}", listed(&self.shown, self.found));
        if after.losses.any() && self.lossy_next.is_some() {
            return after.inconclusive(&found);
        }
        let at = match &self.difference {
            Some((position, event)) => match self.expected.get(*position) {
                Some(expected) => {
                    format!(
                        "\n  the first difference is value {}, expected {expected}: {event}",
                        position + 1
                    )
                }
                None => format!("\n  value {} is one too many: {event}", position + 1),
            },
            None => match self.expected.get(usize::try_from(self.found).unwrap_or(usize::MAX)) {
                None => return Finding::passed(found),
                Some(expected) => {
                    let position = self.found + 1;
                    format!("\n  value {position}, {expected}, is missing{}", self.selector.explain())
                }
            },
        };
        Finding::failed(format!("{found}, expected {}{at}", literals(&self.expected)))
    }
}

/// Evaluates `set:`, values in any order.
pub(super) struct Unordered {
    selector: Selector,
    field: String,
    expected: Vec<Literal>,
    seen: Vec<bool>,
    distinct: bool,
    found: u64,
    /// The number of values that are not expected or too many, and the first of them.
    unexpected: u64,
    first: Vec<String>,
    error: Option<String>,
}

impl Unordered {
    pub(super) fn new(set: &Set) -> Unordered {
        Unordered {
            selector: Selector::new(&set.event, set.condition.as_ref()),
            field: set.field.to_string(),
            seen: vec![false; set.equal.len()],
            expected: set.equal.clone(),
            distinct: set.distinct,
            found: 0,
            unexpected: 0,
            first: Vec::new(),
            error: None,
        }
    }
}

impl Evaluate for Unordered {
    fn wants(&self, group: &str, name: &str) -> bool {
        self.selector.wants(group, name)
    }

    fn observe(&mut self, event: &dyn Observed) {
        if !self.selector.matches(event, &[]) {
            return;
        }
        let Some(value) = lookup(event, &self.field) else {
            self.error.get_or_insert_with(|| lacks(&self.field, event));
            return;
        };
        self.found += 1;
        let free = |index: &usize| self.distinct || !self.seen[*index];
        let mut places = (0..self.expected.len()).filter(free);
        match places.find(|index| equals(event, &value, &self.expected[*index])) {
            Some(index) => self.seen[index] = true,
            None => {
                self.unexpected += 1;
                if self.first.len() < 3 {
                    self.first.push(format!("{}: {}", show(event, &value), describe(event)));
                }
            }
        }
    }

    /// With losses, an unexpected value fails; anything else is inconclusive.
    fn finish(self: Box<Self>, after: &EndState<'_>) -> Finding {
        if let Some(error) = self.error.or_else(|| self.selector.error()) {
            return Finding::failed(error);
        }
        let missing: Vec<_> = self.expected.iter().zip(&self.seen).filter(|(_, seen)| !**seen).collect();
        let missing: Vec<_> = missing.into_iter().map(|(value, _)| value.clone()).collect();
        let mut found = format!("found {} values", self.found);
        if self.unexpected > 0 {
            found.push_str(&format!(", {} of them not expected", self.unexpected));
        } else if after.losses.any() {
            return after.inconclusive(&found);
        }
        if !missing.is_empty() {
            found.push_str(&format!(", {} missing: {}", missing.len(), literals(&missing)));
        }
        if self.unexpected == 0 && missing.is_empty() {
            return Finding::passed(found);
        }
        let first: String = self.first.iter().map(|event| format!("\n    {event}")).collect();
        let first = if first.is_empty() { first } else { format!("\n  not expected:{first}") };
        let near = if missing.is_empty() { String::new() } else { self.selector.explain() };
        Finding::failed(format!("{found}{first}{near}"))
    }
}
