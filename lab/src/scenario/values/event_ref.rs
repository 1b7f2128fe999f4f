//! References to events that something else defines.

use super::names::{EVENT_MAX, identifier};
use crate::scenario::read::scalar::{FromText, from_text};
use std::fmt;

/// An event as named in an expectation: `NAME` or `GROUP:NAME`, followed by `@INSTANCE` if a tracing
/// instance records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRef {
    /// The instance, unless it is the top-level one.
    pub instance: Option<String>,
    /// The group, if given.
    pub group: Option<String>,
    /// The event's name.
    pub name: String,
}

impl FromText for EventRef {
    const EXPECTED: &'static str = "an event, NAME or GROUP:NAME, optionally followed by @INSTANCE";

    fn from_text(text: &str) -> Result<EventRef, String> {
        let (event, instance) = match text.split_once('@') {
            Some((event, name)) => (event, Some(identifier("instance name", name, EVENT_MAX, true)?)),
            None => (text, None),
        };
        let (group, name) = match event.split_once(':') {
            Some((group, name)) => (Some(identifier("group name", group, EVENT_MAX, true)?), name),
            None => (None, event),
        };
        Ok(EventRef { instance, group, name: identifier("event name", name, EVENT_MAX, false)? })
    }
}

from_text!(EventRef, {
    "type": "string",
    "pattern": "^([A-Za-z_-][A-Za-z0-9_-]*:)?[A-Za-z_][A-Za-z0-9_]*(@[A-Za-z_-][A-Za-z0-9_-]*)?$",
    "examples": ["efd_write", "sched:sched_switch", "efd_write@mine"],
});

impl fmt::Display for EventRef {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(group) = &self.group {
            write!(out, "{group}:")?;
        }
        out.write_str(&self.name)?;
        match &self.instance {
            Some(instance) => write!(out, "@{instance}"),
            None => Ok(()),
        }
    }
}

/// A tracepoint's event, `SYSTEM:NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticName {
    /// The system, as in `sched`.
    pub system: String,
    /// The name, as in `sched_switch`.
    pub name: String,
    text: String,
}

impl StaticName {
    /// As written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromText for StaticName {
    const EXPECTED: &'static str = "a tracepoint's event, SYSTEM:NAME";

    fn from_text(text: &str) -> Result<StaticName, String> {
        let event = EventRef::from_text(text)?;
        match event.group {
            _ if event.instance.is_some() => {
                Err(format!("`{text}` has an instance, expected SYSTEM:NAME and a separate key `instance`"))
            }
            Some(system) => Ok(StaticName { system, name: event.name, text: text.to_owned() }),
            None => Err(format!("`{text}` has no system, expected SYSTEM:NAME such as sched:sched_switch")),
        }
    }
}

from_text!(StaticName, {
    "type": "string",
    "pattern": "^[A-Za-z_-][A-Za-z0-9_-]*:[A-Za-z_][A-Za-z0-9_]*$",
    "examples": ["sched:sched_switch"],
});

impl fmt::Display for StaticName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_named_with_or_without_their_group_and_instance() {
        let check = |text, instance: Option<&str>, group: Option<&str>, name: &str| {
            let [instance, group] = [instance, group].map(|part| part.map(str::to_owned));
            let found = EventRef::from_text(text);
            assert_eq!(found, Ok(EventRef { instance, group, name: name.to_owned() }));
            assert_eq!(found.unwrap().to_string(), text);
        };
        check("efd_write", None, None, "efd_write");
        check("sched:sched_switch", None, Some("sched"), "sched_switch");
        check("efd_write@mine", Some("mine"), None, "efd_write");
        check("sched:sched_switch@mine", Some("mine"), Some("sched"), "sched_switch");
        let refused = |error: Result<EventRef, String>, part: &str| {
            let error = error.unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        refused(EventRef::from_text("a:b:c"), "bad character ':'");
        refused(EventRef::from_text("a@"), "empty instance name");
        refused(EventRef::from_text("a@b@c"), "bad character '@'");
        for (text, part) in [("sched_switch", "has no system"), ("a:b@c", "a separate key `instance`")] {
            let error = StaticName::from_text(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
