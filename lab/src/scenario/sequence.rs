//! `sequence:`, events in an order.

use super::{
    bind::{Bind, Same},
    event_ref::EventRef,
    span::Span,
};
use crate::verdict::Condition;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use std::{borrow::Cow, fmt};

/// Events in this order; others may come between them. YAML: the list of steps, or a map of
/// `steps`, `strict` and `within`.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    /// The events, in order.
    pub steps: Vec<SequenceStep>,
    /// No other event comes between any two.
    pub strict: bool,
    /// The time from the first to the last.
    pub within: Option<Span>,
}

/// One event of a [`Sequence`].
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SequenceStep {
    /// Which event, NAME or GROUP:NAME.
    pub event: EventRef,
    /// Only those for which this CEL condition holds. `$name` is a value bound by an earlier step.
    #[serde(default, rename = "where")]
    pub condition: Option<Condition>,
    /// Keeps values of fields under names: `pid`, or `{name: field}`.
    #[serde(default)]
    pub bind: Bind,
    /// These fields have the values that were bound under their names.
    #[serde(default)]
    pub same: Same,
    /// The time since the step before is at most this.
    #[serde(default)]
    pub within: Option<Span>,
    /// No other event comes between the step before and this one; with `same`, none that has the
    /// same values of these fields.
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
    /// No other event comes between any two.
    #[serde(default)]
    strict: bool,
    /// The time from the first to the last is at most this.
    #[serde(default)]
    within: Option<Span>,
}

impl<'de> Deserialize<'de> for Sequence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Sequence, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Sequence;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a list of events, or a map of steps, strict, within")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Sequence, A::Error> {
                let mut steps = Vec::new();
                while let Some(step) = list.next_element()? {
                    steps.push(step);
                }
                Ok(Sequence { steps, strict: false, within: None })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Sequence, A::Error> {
                let map = Map::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Sequence { steps: map.steps, strict: map.strict, within: map.within })
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for Sequence {
    fn schema_name() -> Cow<'static, str> {
        "Sequence".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Events in this order; others may come between them.",
            "oneOf": [
                { "type": "array", "items": generator.subschema_for::<SequenceStep>() },
                generator.subschema_for::<Map>(),
            ],
        })
    }
}
