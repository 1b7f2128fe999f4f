//! `sequence:`, events in a given order.

use super::bind::{Bind, Same};
use crate::scenario::{
    Condition,
    read::shapes::Shapes,
    values::{event_ref::EventRef, timespan::Timespan},
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;

/// Requires events in this order; others may come between them. In YAML: the list of steps, or a map of
/// `steps`, `strict` and `within`.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    /// The events, in order.
    pub steps: Vec<SequenceStep>,
    /// Whether no other event may come between any two of them.
    pub strict: bool,
    /// Maximum time from the first to the last event.
    pub within: Option<Timespan>,
}

/// One event of a [`Sequence`].
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SequenceStep {
    /// The event, `NAME` or `GROUP:NAME`.
    pub event: EventRef,
    /// Considers only events for which this CEL condition holds. `$name` is a value bound by an earlier
    /// step.
    #[serde(default, rename = "where")]
    pub condition: Option<Condition>,
    /// Binds values of fields to names: `pid`, or `{name: field}`.
    #[serde(default)]
    pub bind: Bind,
    /// Requires these fields to have the values bound to their names.
    #[serde(default)]
    pub same: Same,
    /// Maximum time since the previous step.
    #[serde(default)]
    pub within: Option<Timespan>,
    /// Allows no other event between the previous step and this one; with `same`, no other event with
    /// the same values of these fields.
    #[serde(default)]
    pub strict: bool,
}

/// The map form of [`Sequence`].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SequenceMap")]
struct Map {
    /// The events, in order.
    steps: Vec<SequenceStep>,
    /// Allows no other event between any two of them.
    #[serde(default)]
    strict: bool,
    /// Maximum time from the first to the last event.
    #[serde(default)]
    within: Option<Timespan>,
}

impl<'de> Deserialize<'de> for Sequence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Sequence, D::Error> {
        Shapes::new("a list of events, or a map of steps, strict, within")
            .list(|steps| Ok(Sequence { steps, strict: false, within: None }))
            .map(|Map { steps, strict, within }| Ok(Sequence { steps, strict, within }))
            .read(deserializer)
    }
}

impl JsonSchema for Sequence {
    fn schema_name() -> Cow<'static, str> {
        "Sequence".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Requires events in this order; others may come between them.",
            "oneOf": [
                { "type": "array", "items": generator.subschema_for::<SequenceStep>() },
                generator.subschema_for::<Map>(),
            ],
        })
    }
}
