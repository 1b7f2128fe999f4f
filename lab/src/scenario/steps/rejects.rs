//! `rejects:`, commands that a tracefs file must reject, and the expected error message of each.

use crate::scenario::{
    read::{
        name_map::Named,
        scalar::{FromText, from_text, printable_line},
    },
    values::{
        errno::Errno,
        names::{FilePath, Line},
    },
};
use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use std::{borrow::Cow, fmt};

/// Requires that the kernel's parser rejects commands, each with its entry in tracefs' `error_log`.
/// Each command is appended by a separate write(2).
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rejects {
    /// The file, absolute or below tracefs.
    pub rejects: FilePath,
    /// The commands, each with a `^` where the kernel's caret must point, and the expected error
    /// messages: `"p ^nope": Invalid probed address or symbol`. The `^` itself is not written.
    pub errors: Errors,
    /// The errno that each of these writes must fail with, by name. Default EINVAL.
    #[serde(default = "einval")]
    pub errno: Errno,
}

fn einval() -> Errno {
    Errno::EINVAL
}

/// Commands and their error messages, in the order written.
#[derive(Clone, Debug, PartialEq)]
pub struct Errors(pub IndexMap<PointedAt, Line>);

/// Maximum number of commands of one step, which are sent to the agent in one batch.
const COMMANDS_MAX: usize = 200;

impl<'de> Deserialize<'de> for Errors {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Errors, D::Error> {
        let named = Named { what: "command", map: "commands to error messages", max: COMMANDS_MAX };
        named.read(deserializer).map(Errors)
    }
}

impl JsonSchema for Errors {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Errors".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "propertyNames": generator.subschema_for::<PointedAt>(),
            "additionalProperties": generator.subschema_for::<Line>(),
            "minProperties": 1,
        })
    }
}

/// A command with a `^` where the kernel's caret must point.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PointedAt {
    text: String,
    /// Number of bytes of the command before the caret.
    pub place: usize,
}

impl PointedAt {
    /// Returns the command, without the `^`.
    pub fn command(&self) -> String {
        self.text.replacen('^', "", 1)
    }
}

impl FromText for PointedAt {
    const EXPECTED: &'static str = "a command with one `^` where the kernel's caret must point";

    fn from_text(text: &str) -> Result<PointedAt, String> {
        printable_line(text)?;
        let mut places = text.match_indices('^').map(|(place, _)| place);
        match (places.next(), places.next()) {
            (Some(place), None) => Ok(PointedAt { text: text.to_owned(), place }),
            (None, _) => Err(format!("no `^` in `{text}`, expected {}", Self::EXPECTED)),
            _ => Err(format!("more than one `^` in `{text}`, expected {}", Self::EXPECTED)),
        }
    }
}

from_text!(PointedAt, { "type": "string", "pattern": "^[^^]*\\^[^^]*$", "examples": ["p ^nope", "p vfs_read ^$retval"] });

impl fmt::Display for PointedAt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_one_place_that_is_pointed_at() {
        let place = |text| PointedAt::from_text(text).map(|pointed| (pointed.command(), pointed.place));
        assert_eq!(place("p ^nope"), Ok(("p nope".to_owned(), 2)));
        assert_eq!(place("p f arg1=^"), Ok(("p f arg1=".to_owned(), 9)));
        assert!(place("p nope").unwrap_err().contains("no `^` in `p nope`"));
        assert!(place("^p ^nope").unwrap_err().contains("more than one `^`"));
    }

    #[test]
    fn a_command_is_there_once() {
        let step: Rejects =
            crate::yaml::from_str("{ rejects: kprobe_events, errors: { 'p ^a': x } }").unwrap();
        assert_eq!((step.errno, step.errors.0.len()), (Errno::EINVAL, 1));
        let yaml = "{ rejects: kprobe_events, errors: { 'p ^a': x, 'p ^a': y } }";
        let error = crate::yaml::from_str::<Rejects>(yaml).unwrap_err().to_string();
        assert!(error.contains("command `p ^a` appears twice"), "{error}");
    }
}
