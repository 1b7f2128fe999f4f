//! Values that a scenario compares fields with: integers, strings, and lists of them.

use crate::scenario::read::shapes::Shapes;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use std::{borrow::Cow, fmt};

/// A value as YAML writes it. Integers may be decimal or hexadecimal (`0x1c`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Literal {
    /// Any integer that a 64-bit field can hold, signed or unsigned.
    Int(i128),
    /// The value of a string field, or a symbol if the field is an address.
    Text(String),
    /// The values of an array field.
    List(Vec<Literal>),
}

impl fmt::Display for Literal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Int(number) => write!(out, "{number}"),
            Literal::Text(text) => write!(out, "{text:?}"),
            Literal::List(list) => {
                out.write_str("[")?;
                for (i, value) in list.iter().enumerate() {
                    write!(out, "{}{value}", if i == 0 { "" } else { ", " })?;
                }
                out.write_str("]")
            }
        }
    }
}

impl<'de> Deserialize<'de> for Literal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Literal, D::Error> {
        Shapes::new("an integer, a string in quotes, or a list of them")
            .integer(|number| Ok(Literal::Int(number)))
            .text(|text| Ok(Literal::Text(text.to_owned())))
            .list(|values| Ok(Literal::List(values)))
            .read(deserializer)
    }
}

impl JsonSchema for Literal {
    fn schema_name() -> Cow<'static, str> {
        "Literal".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "An integer, a string, or a list of them.",
            "oneOf": [
                { "type": "integer" },
                { "type": "string" },
                { "type": "array", "items": generator.subschema_for::<Literal>() },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_integers_texts_and_lists() {
        let check = |yaml: &str, expect: Literal| {
            assert_eq!(crate::yaml::from_str::<Literal>(yaml).unwrap(), expect, "{yaml}");
        };
        check("28", Literal::Int(28));
        check("-9", Literal::Int(-9));
        check("0x1c", Literal::Int(28));
        check("18446744073709551615", Literal::Int(u64::MAX.into()));
        check("eventfd", Literal::Text("eventfd".into()));
        check("'28'", Literal::Text("28".into()));
        check("[1, a]", Literal::List(vec![Literal::Int(1), Literal::Text("a".into())]));
        for wrong in ["1.5", "true", "~", "{ a: 1 }"] {
            assert!(crate::yaml::from_str::<Literal>(wrong).is_err(), "{wrong}");
        }
    }
}
