//! Events selected by name and condition, for tools that read a trace.

use super::{evaluate::ConditionResult, observed::Observed};
use crate::scenario::{Condition, EventRef, FromText};

/// Selects events.
#[derive(Debug)]
pub struct Filter {
    events: Vec<EventRef>,
    condition: Option<Condition>,
    /// The reason why the condition could not be evaluated, on the first such event.
    error: Option<String>,
}

impl Filter {
    /// Selects events with one of these names (without names, all) that meet the condition. The error
    /// says what is wrong with a name or the condition.
    pub fn new(events: &[String], condition: Option<&str>) -> Result<Filter, String> {
        let events = events.iter().map(|event| EventRef::from_text(event)).collect::<Result<_, _>>()?;
        Ok(Filter { events, condition: condition.map(Condition::from_text).transpose()?, error: None })
    }

    /// Returns whether this event is selected. It is not if the condition cannot be evaluated: not every
    /// event has the field.
    pub fn wants(&mut self, event: &dyn Observed) -> bool {
        let named = |wanted: &EventRef| {
            wanted.name == event.name() && wanted.group.as_deref().is_none_or(|group| group == event.group())
        };
        if !self.events.is_empty() && !self.events.iter().any(named) {
            return false;
        }
        match self.condition.as_ref().map(|condition| condition.holds(event, &[])) {
            None | Some(ConditionResult::Yes) => true,
            Some(ConditionResult::No(_)) => false,
            Some(ConditionResult::Error(_, reason)) => {
                self.error.get_or_insert(reason);
                false
            }
        }
    }

    /// Returns the reason why the condition could not be evaluated on some event.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }
}
