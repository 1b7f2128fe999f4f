//! Scalars with a meaning: parsed while YAML is read, so that an error has its line.

use serde::{
    Deserializer,
    de::{Error, Visitor},
};
use std::{fmt, marker::PhantomData};

/// A type parsed from a YAML scalar.
pub(crate) trait FromText: Sized {
    /// The expected form, as in "a duration such as 5ms or 30s".
    const EXPECTED: &'static str;

    /// Parses the scalar. The error describes the problem.
    fn from_text(text: &str) -> Result<Self, String>;
}

struct Text<T>(PhantomData<T>);

impl<T: FromText> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(T::EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::from_text(text).map_err(E::custom)
    }
}

pub(crate) fn deserialize<'de, T: FromText, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    // The parser adds its location only to errors from inside the visitor.
    deserializer.deserialize_str(Text(PhantomData))
}

/// Implements `Deserialize` and `JsonSchema` for a type that is [`FromText`].
macro_rules! from_text {
    ($type:ty, $schema:tt) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::scenario::read::scalar::deserialize(deserializer)
            }
        }

        impl schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    };
}

pub(crate) use from_text;

/// Rejects strings that would break out of one line of a tracefs file or of a terminal.
pub(in crate::scenario) fn printable_line(text: &str) -> Result<(), String> {
    match text.chars().find(|c| c.is_control()) {
        Some(c) => Err(format!("control character {c:?}, expected printable text on one line")),
        None => Ok(()),
    }
}
