//! `count:` and `never:`.

use super::{
    finding::{EndState, Evaluate, Finding},
    observed::{Observed, describe},
    selector::Selector,
};
use crate::scenario::{Amount, Count, Never};

/// Evaluates `count:` and `never:`.
pub(super) struct Counting {
    selector: Selector,
    amount: Amount,
    found: u64,
    first: Vec<String>,
}

/// The maximum number of matching events that are shown.
const SHOWN: usize = 3;

impl Counting {
    pub(super) fn of_count(count: &Count) -> Counting {
        Counting {
            selector: Selector::new(&count.event, count.condition.as_ref()),
            amount: Amount::of(count.is, count.at_least, count.at_most),
            found: 0,
            first: Vec::new(),
        }
    }

    pub(super) fn of_never(never: &Never) -> Counting {
        Counting {
            selector: Selector::new(&never.event, never.condition.as_ref()),
            amount: Amount::exactly(0),
            found: 0,
            first: Vec::new(),
        }
    }
}

impl Evaluate for Counting {
    fn wants(&self, group: &str, name: &str) -> bool {
        self.selector.wants(group, name)
    }

    fn observe(&mut self, event: &dyn Observed) {
        if self.selector.matches(event, &[]) {
            self.found += 1;
            if self.first.len() < SHOWN {
                self.first.push(describe(event));
            }
        }
    }

    /// Losses only hide events: a count above its upper bound still fails, and a lower bound without an
    /// upper one, once reached, still holds. Anything else is inconclusive.
    fn finish(self: Box<Self>, after: &EndState<'_>) -> Finding {
        if let Some(error) = self.selector.error() {
            return Finding::failed(error);
        }
        let expected = match self.amount {
            none if none == Amount::exactly(0) => "none".to_owned(),
            amount => amount.to_string(),
        };
        let found = format!("found {}, expected {expected}", self.found);
        if self.amount.exceeds(self.found) {
            let matching: String = self.first.iter().map(|event| format!("\n    {event}")).collect();
            let first = if self.found > 1 { "the first of them" } else { "it is" };
            return Finding::failed(format!("{found}\n  {first}:{matching}"));
        }
        if after.losses.any() && (self.amount.at_most.is_some() || self.amount.falls_short(self.found)) {
            return after.inconclusive(&found);
        }
        if self.amount.falls_short(self.found) {
            return Finding::failed(format!("{found}{}", self.selector.explain()));
        }
        Finding::passed(format!("found {}", self.found))
    }
}
