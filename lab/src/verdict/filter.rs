//! Events chosen by name and condition, for whoever looks at a trace.

use super::{Condition, evaluate::Holds, observed::Observed};
use crate::scenario::{EventRef, FromText};

/// Which events are wanted.
#[derive(Debug)]
pub struct Filter {
    events: Vec<EventRef>,
    condition: Option<Condition>,
    /// Why the condition could not be evaluated on the first event where that was so.
    error: Option<String>,
}

impl Filter {
    /// Events of any of these names (all, if there are none) of which the condition holds. An
    /// error says what is wrong with a name or the condition.
    pub fn new(events: &[String], condition: Option<&str>) -> Result<Filter, String> {
        let events = events.iter().map(|event| EventRef::from_text(event)).collect::<Result<_, _>>()?;
        Ok(Filter { events, condition: condition.map(Condition::from_text).transpose()?, error: None })
    }

    /// Whether this event is wanted. Where the condition cannot be evaluated it is not: another
    /// event may not have the field.
    pub fn wants(&mut self, event: &dyn Observed) -> bool {
        let named = |wanted: &EventRef| {
            wanted.name == event.name() && wanted.group.as_deref().is_none_or(|group| group == event.group())
        };
        if !self.events.is_empty() && !self.events.iter().any(named) {
            return false;
        }
        match self.condition.as_ref().map(|condition| condition.holds(event, &[])) {
            None | Some(Holds::Yes) => true,
            Some(Holds::No(_)) => false,
            Some(Holds::Error(_, reason)) => {
                self.error.get_or_insert(reason);
                false
            }
        }
    }

    /// Why the condition could not be evaluated somewhere, if so.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }
}
