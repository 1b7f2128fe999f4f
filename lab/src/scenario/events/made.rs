//! Events that are no probes: those that are there already, and those that are made of others or
//! written by programs.

use super::{
    UserPlaces,
    kinds::{Definition, Kind, recorded},
};
use crate::scenario::{
    event_ref::StaticName,
    named::Named,
    names::{ArgName, EventName, InstanceName, Line},
};
use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use std::{borrow::Cow, fmt};

/// An event that is there already: a tracepoint of the kernel or of a module defines it, or another
/// item does, and this one has a tracing instance record it as well.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StaticEvent {
    /// The event, `SYSTEM:NAME` as in `sched:sched_switch`.
    pub event: StaticName,
    /// Goes to the event's `filter` file.
    #[serde(default)]
    pub filter: Option<Line>,
    /// Go to the event's `trigger` file, one write each.
    #[serde(default)]
    pub triggers: Vec<Line>,
    /// The tracing instance that records it. Default: the top-level one.
    #[serde(default)]
    pub instance: Option<InstanceName>,
}

/// A synthetic event, which hist triggers of other events make.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Synthetic {
    /// The event's name; its group is `synthetic`.
    pub synthetic: EventName,
    /// Its fields and their types, in order: `{ lat: u64, comm: "char[16]" }`.
    pub fields: Fields,
    /// The hist triggers that make it, in the order in which they are written.
    pub fed_by: Vec<Feed>,
    /// Goes to the event's `filter` file.
    #[serde(default)]
    pub filter: Option<Line>,
    /// Go to the event's `trigger` file, one write each: `hist:keys=lat` counts its events.
    #[serde(default)]
    pub triggers: Vec<Line>,
    /// The tracing instance that records it and has the triggers. Default: the top-level one.
    #[serde(default)]
    pub instance: Option<InstanceName>,
}

/// A trigger with a part in a synthetic event. Its own event is not recorded for that.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Feed {
    /// Whose trigger, `SYSTEM:NAME`.
    pub event: StaticName,
    /// Goes to its `trigger` file: `hist:keys=pid:ts0=common_timestamp.usecs`.
    pub trigger: Line,
}

/// A user event, which a workload writes by way of `user_events_data`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserEvent {
    /// The event's name; its group is `user_events`.
    pub user_event: EventName,
    /// Its fields and their types, in order, as the program registers them: `{ count: u32 }`.
    pub fields: Fields,
    /// Goes to the event's `filter` file.
    #[serde(default)]
    pub filter: Option<Line>,
    /// Go to the event's `trigger` file, one write each.
    #[serde(default)]
    pub triggers: Vec<Line>,
    /// The tracing instance that records it. Default: the top-level one.
    #[serde(default)]
    pub instance: Option<InstanceName>,
}

/// Fields and their types, in the order written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields(pub IndexMap<ArgName, Line>);

/// `SYNTH_FIELDS_MAX` of the kernel from 6.2 on.
const FIELDS_MAX: usize = 64;

impl fmt::Display for Fields {
    /// As the kernel takes them, each with a blank in front: ` u64 lat; pid_t pid`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, of_type)) in self.0.iter().enumerate() {
            let end = if index == 0 { "" } else { ";" };
            write!(out, "{end} {of_type} {name}")?;
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields, D::Error> {
        Named { what: "field", map: "field names to types", max: FIELDS_MAX }.read(deserializer).map(Fields)
    }
}

impl JsonSchema for Fields {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Fields".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "propertyNames": generator.subschema_for::<ArgName>(),
            "additionalProperties": generator.subschema_for::<Line>(),
        })
    }
}

macro_rules! fields {
    () => {
        fn fields(&self) -> Option<Vec<&str>> {
            Some(self.fields.0.keys().map(ArgName::as_str).collect())
        }
    };
}

impl Kind for StaticEvent {
    recorded!();

    fn group(&self) -> &str {
        &self.event.system
    }

    fn name(&self) -> &str {
        &self.event.name
    }

    fn is_defined(&self) -> bool {
        false
    }

    fn definition(&self, _: &UserPlaces) -> Option<Definition> {
        None
    }
}

impl Kind for Synthetic {
    recorded!();
    fields!();

    fn group(&self) -> &str {
        "synthetic"
    }

    fn name(&self) -> &str {
        &self.synthetic
    }

    fn feeds(&self) -> &[Feed] {
        &self.fed_by
    }

    fn definition(&self, _: &UserPlaces) -> Option<Definition> {
        let line = format!("{}{}", self.synthetic, self.fields);
        Some(Definition { file: "synthetic_events", line })
    }
}

impl Kind for UserEvent {
    recorded!();
    fields!();

    fn group(&self) -> &str {
        "user_events"
    }

    fn name(&self) -> &str {
        &self.user_event
    }

    fn definition(&self, _: &UserPlaces) -> Option<Definition> {
        let line = format!("u:{}{}", self.user_event, self.fields);
        Some(Definition { file: "dynamic_events", line })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::EventSpec;

    fn check(yaml: &str, expect: Option<(&'static str, &str)>, fields: Option<&[&str]>) {
        let event: EventSpec = serde_yaml::from_str(yaml).unwrap();
        let expect = expect.map(|(file, line)| Definition { file, line: line.to_owned() });
        assert_eq!(event.definition(&UserPlaces::new()), expect, "{yaml}");
        assert_eq!(event.fields().as_deref(), fields, "{yaml}");
        assert!(event.probe().is_none(), "{yaml}");
    }

    #[test]
    fn events_that_are_no_probes_are_created_by_these_lines() {
        check("event: sched:sched_switch", None, None);
        check(
            "{ synthetic: wake, fields: { lat: u64, comm: 'char[16]' }, fed_by: [] }",
            Some(("synthetic_events", "wake u64 lat; char[16] comm")),
            Some(&["lat", "comm"]),
        );
        check(
            "{ user_event: tick, fields: { count: u32 } }",
            Some(("dynamic_events", "u:tick u32 count")),
            Some(&["count"]),
        );
    }

    #[test]
    fn a_field_is_there_once() {
        let error = serde_yaml::from_str::<Fields>("{ a: u8, a: u16 }").unwrap_err().to_string();
        assert!(error.contains("field `a` is there twice"), "{error}");
    }
}
