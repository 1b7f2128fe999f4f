//! `graph:`, a call tree of the function_graph tracer.

use super::{
    literal::Literal,
    names::{Line, ProbePoint},
    span::Span,
    text::FromText,
};
use crate::verdict::Condition;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor, value::MapAccessDeserializer},
};
use std::{borrow::Cow, fmt};

/// A call tree that is in the trace.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Graph {
    /// The function at its root.
    pub call: Line,
    /// Only calls for whose entry this CEL condition holds, as in `comm == "eventfd"`.
    #[serde(default, rename = "where")]
    pub condition: Option<Condition>,
    /// What it calls, in order; other calls may come between them.
    #[serde(default)]
    pub calls: Vec<GraphCall>,
    /// It calls nothing else that is traced.
    #[serde(default)]
    pub only: bool,
    /// How deep below the outermost traced call it is; 0 is the outermost.
    #[serde(default)]
    pub depth: Option<u32>,
    /// What it returns, on kernels that record it.
    #[serde(default)]
    pub returns: Option<Literal>,
    /// It takes at most this.
    #[serde(default)]
    pub within: Option<Span>,
    /// Exactly so many such trees. Default: at least one.
    #[serde(default)]
    pub is: Option<u64>,
    /// At least so many such trees.
    #[serde(default)]
    pub at_least: Option<u64>,
    /// At most so many such trees.
    #[serde(default)]
    pub at_most: Option<u64>,
}

/// A call inside a [`Graph`]: a function's name, or a map.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphCall {
    /// The function.
    pub call: Line,
    /// What it calls, in order; other calls may come between them.
    pub calls: Vec<GraphCall>,
    /// It calls nothing else that is traced: with no `calls`, it is a leaf.
    pub only: bool,
    /// What it returns, on kernels that record it.
    pub returns: Option<Literal>,
    /// It takes at most this.
    pub within: Option<Span>,
}

/// The map form of [`GraphCall`].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "GraphCallMap")]
struct Map {
    /// The function.
    call: Line,
    /// What it calls, in order; other calls may come between them.
    #[serde(default)]
    calls: Vec<GraphCall>,
    /// It calls nothing else that is traced: with no `calls`, it is a leaf.
    #[serde(default)]
    only: bool,
    /// It calls nothing that is traced.
    #[serde(default)]
    leaf: bool,
    /// What it returns, on kernels that record it.
    #[serde(default)]
    returns: Option<Literal>,
    /// It takes at most this.
    #[serde(default)]
    within: Option<Span>,
}

impl<'de> Deserialize<'de> for GraphCall {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GraphCall, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = GraphCall;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a function, or a map of call, calls, only, leaf, returns, within")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<GraphCall, E> {
                // A function's name is what a probe could be put on.
                ProbePoint::from_text(text).map_err(E::custom)?;
                let call = Line::from_text(text).map_err(E::custom)?;
                Ok(GraphCall { call, calls: Vec::new(), only: false, returns: None, within: None })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<GraphCall, A::Error> {
                let Map { call, calls, only, leaf, returns, within } =
                    Map::deserialize(MapAccessDeserializer::new(map))?;
                if leaf && !calls.is_empty() {
                    return Err(de::Error::custom(format!(
                        "`{call}` is a leaf and has calls, expected one of both"
                    )));
                }
                Ok(GraphCall { call, calls, only: only || leaf, returns, within })
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for GraphCall {
    fn schema_name() -> Cow<'static, str> {
        "GraphCall".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A call: a function's name, or a map.",
            "oneOf": [{ "type": "string" }, generator.subschema_for::<Map>()],
        })
    }
}
