//! `graph:`, a call tree of the function_graph tracer.

use crate::scenario::{
    Condition,
    read::{scalar::FromText, shapes::Shapes},
    values::{
        literal::Literal,
        names::{Line, ProbePoint},
        timespan::Timespan,
    },
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;

/// Requires a call tree in the trace.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Graph {
    /// The function at the root.
    pub call: Line,
    /// Considers only calls for whose entry this CEL condition holds, as in `comm == "eventfd"`.
    #[serde(default, rename = "where")]
    pub condition: Option<Condition>,
    /// Calls that the function makes, in order; other calls may come between them.
    #[serde(default)]
    pub calls: Vec<GraphCall>,
    /// Requires that no other traced function is called.
    #[serde(default)]
    pub only: bool,
    /// Call depth of the root; 0 is the outermost traced call.
    #[serde(default)]
    pub depth: Option<u32>,
    /// The return value, on kernels that record it.
    #[serde(default)]
    pub returns: Option<Literal>,
    /// Maximum duration.
    #[serde(default)]
    pub within: Option<Timespan>,
    /// Requires exactly this many such trees. Default: at least one.
    #[serde(default)]
    pub is: Option<u64>,
    /// Requires at least this many such trees.
    #[serde(default)]
    pub at_least: Option<u64>,
    /// Requires at most this many such trees.
    #[serde(default)]
    pub at_most: Option<u64>,
}

/// A call inside a [`Graph`]: a function's name, or a map.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphCall {
    /// The function.
    pub call: Line,
    /// Calls that the function makes, in order; other calls may come between them.
    pub calls: Vec<GraphCall>,
    /// Requires that no other traced function is called: without `calls`, it is a leaf.
    pub only: bool,
    /// The return value, on kernels that record it.
    pub returns: Option<Literal>,
    /// Maximum duration.
    pub within: Option<Timespan>,
}

/// The map form of [`GraphCall`].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "GraphCallMap")]
struct Map {
    /// The function.
    call: Line,
    /// Calls that the function makes, in order; other calls may come between them.
    #[serde(default)]
    calls: Vec<GraphCall>,
    /// Requires that no other traced function is called: without `calls`, it is a leaf.
    #[serde(default)]
    only: bool,
    /// Requires that it calls no traced function.
    #[serde(default)]
    leaf: bool,
    /// The return value, on kernels that record it.
    #[serde(default)]
    returns: Option<Literal>,
    /// Maximum duration.
    #[serde(default)]
    within: Option<Timespan>,
}

impl<'de> Deserialize<'de> for GraphCall {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GraphCall, D::Error> {
        Shapes::new("a function, or a map of call, calls, only, leaf, returns, within")
            .text(|text| {
                // Any function that a probe could be placed on.
                ProbePoint::from_text(text)?;
                let call = Line::from_text(text)?;
                Ok(GraphCall { call, calls: Vec::new(), only: false, returns: None, within: None })
            })
            .map(|Map { call, calls, only, leaf, returns, within }| {
                if leaf && !calls.is_empty() {
                    return Err(format!("`{call}` is a leaf and has calls, expected only one of them"));
                }
                Ok(GraphCall { call, calls, only: only || leaf, returns, within })
            })
            .read(deserializer)
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
