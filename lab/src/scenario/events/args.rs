//! `args:`, the arguments that a probe fetches.

use crate::scenario::{FetchArg, read::name_map::Named, values::names::ArgName};
use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use std::{borrow::Cow, fmt};

/// A probe's arguments, in the order written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Args(pub IndexMap<ArgName, FetchArg>);

/// `MAX_TRACE_ARGS` of the kernel.
const ARGS_MAX: usize = 128;

impl<'de> Deserialize<'de> for Args {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Args, D::Error> {
        let named =
            Named { what: "argument", map: "argument names to fetch arguments or paths", max: ARGS_MAX };
        named.read(deserializer).map(Args)
    }
}

impl fmt::Display for Args {
    /// Formats them for the end of a definition, each preceded by a space.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, fetch)| write!(out, " {name}={fetch}"))
    }
}

impl JsonSchema for Args {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Args".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "propertyNames": generator.subschema_for::<ArgName>(),
            "additionalProperties": generator.subschema_for::<FetchArg>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_keep_their_order_and_are_there_once() {
        let args: Args = crate::yaml::from_str(r#"{ z: "$arg1", a: "$arg2" }"#).unwrap();
        assert_eq!(args.0.keys().map(ArgName::as_str).collect::<Vec<_>>(), ["z", "a"]);
        let twice = crate::yaml::from_str::<Args>(r#"{ a: "$arg1", a: "$arg2" }"#).unwrap_err();
        assert!(twice.to_string().contains("argument `a` appears twice"), "{twice}");
    }
}
