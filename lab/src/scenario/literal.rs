//! Values that a scenario compares fields with: integers, texts, and lists of them.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{self, SeqAccess, Visitor},
};
use std::{borrow::Cow, fmt};

/// A value as YAML writes it. Integers may be decimal or hexadecimal (`0x1c`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Literal {
    /// Any that a 64-bit field holds, signed or not.
    Int(i128),
    /// A string field's value, or a symbol where the field is an address.
    Text(String),
    /// An array field's values.
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
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Literal;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an integer, a text in quotes, or a list of them")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Literal, E> {
                Ok(Literal::Int(number.into()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Literal, E> {
                Ok(Literal::Int(number.into()))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Literal, E> {
                Ok(Literal::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Literal, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = list.next_element()? {
                    values.push(value);
                }
                Ok(Literal::List(values))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

impl JsonSchema for Literal {
    fn schema_name() -> Cow<'static, str> {
        "Literal".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "An integer, a text, or a list of them.",
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
            assert_eq!(serde_yaml::from_str::<Literal>(yaml).unwrap(), expect, "{yaml}");
        };
        check("28", Literal::Int(28));
        check("-9", Literal::Int(-9));
        check("0x1c", Literal::Int(28));
        check("18446744073709551615", Literal::Int(u64::MAX.into()));
        check("eventfd", Literal::Text("eventfd".into()));
        check("'28'", Literal::Text("28".into()));
        check("[1, a]", Literal::List(vec![Literal::Int(1), Literal::Text("a".into())]));
        for wrong in ["1.5", "true", "~", "{ a: 1 }"] {
            assert!(serde_yaml::from_str::<Literal>(wrong).is_err(), "{wrong}");
        }
    }
}
