//! Scalars that mean something: parsed while YAML is read, so that an error has its line.

use serde::{
    Deserializer,
    de::{Error, Visitor},
};
use std::{fmt, marker::PhantomData};

/// A type that a YAML scalar is parsed into.
pub(crate) trait FromText: Sized {
    /// What is expected, as in "a duration such as 5ms or 30s".
    const EXPECTED: &'static str;

    /// Parses the scalar. The error says what is wrong with it.
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
    // The parser's own location is added to errors from inside the visitor only.
    deserializer.deserialize_str(Text(PhantomData))
}

/// `Deserialize` and `JsonSchema` for a type that is [`FromText`].
macro_rules! from_text {
    ($type:ty, $schema:tt) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::scenario::text::deserialize(deserializer)
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

/// Refuses what would break out of one line of a tracefs file or of a terminal.
pub(super) fn printable_line(text: &str) -> Result<(), String> {
    match text.chars().find(|c| c.is_control()) {
        Some(c) => Err(format!("control character {c:?}, expected printable text on one line")),
        None => Ok(()),
    }
}

/// Text as it is shown in a message: escaped, and no longer than `max` characters.
pub(crate) fn excerpt(text: &str, max: usize) -> String {
    let mut shown: String = text.chars().take(max).flat_map(char::escape_debug).collect();
    let left = text.chars().count().saturating_sub(max);
    if left > 0 {
        shown.push_str(&format!("… ({left} more characters)"));
    }
    shown
}

/// As [`excerpt`], but a text that is too long is cut in its middle: what a log or a program says
/// last tells the most.
pub(super) fn both_ends(text: &str, max: usize) -> String {
    let left = text.chars().count().saturating_sub(max);
    if left == 0 {
        return excerpt(text, max);
    }
    let head: String = text.chars().take(max / 2).flat_map(char::escape_debug).collect();
    let tail: String = text.chars().skip(max / 2 + left).flat_map(char::escape_debug).collect();
    format!("{head}… ({left} more characters) …{tail}")
}
