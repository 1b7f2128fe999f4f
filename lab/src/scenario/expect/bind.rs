//! Relations between the events of one expectation: `bind: pid`, `same: pid`, `by: {pid: next_pid}`.

use crate::scenario::read::{
    scalar::{FromText, from_text},
    shapes::{Entries, Shapes},
};
use indexmap::{IndexMap, IndexSet};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;

/// Names and the fields they stand for. `bind: pid` is short for `bind: {pid: pid}`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bind(pub IndexMap<String, String>);

/// Fields that must have the values bound earlier: `same: pid` or `same: [pid, fd]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Same(pub Vec<String>);

/// The name of a field or variable.
#[derive(PartialEq, Eq, Hash)]
struct Name(String);

impl FromText for Name {
    const EXPECTED: &'static str = "a field's name";

    fn from_text(text: &str) -> Result<Name, String> {
        let good =
            |(i, c): (usize, char)| c == '_' || c.is_ascii_alphabetic() || (i > 0 && c.is_ascii_digit());
        if text.is_empty() || !text.chars().enumerate().all(good) {
            return Err(format!("`{text}` is not a field's name, expected letters, digits and underscores"));
        }
        Ok(Name(text.to_owned()))
    }
}

from_text!(Name, { "type": "string" });

impl<'de> Deserialize<'de> for Bind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bind, D::Error> {
        Shapes::new("a field, a list of fields, or a map of names to fields")
            .text(|text| Name::from_text(text).map(|Name(name)| Bind([(name.clone(), name)].into())))
            .list(|names: Vec<Name>| {
                Ok(Bind(names.into_iter().map(|Name(name)| (name.clone(), name)).collect()))
            })
            .map(|Entries(entries)| {
                let mut names = IndexMap::new();
                for (Name(name), Name(field)) in entries {
                    if names.contains_key(&name) {
                        return Err(format!("`{name}` appears twice"));
                    }
                    names.insert(name, field);
                }
                Ok(Bind(names))
            })
            .read(deserializer)
    }
}

impl<'de> Deserialize<'de> for Same {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Same, D::Error> {
        Shapes::new("a field, a list of fields")
            .text(|text| Name::from_text(text).map(|Name(name)| Same(vec![name])))
            .list(|names: Vec<Name>| {
                let names: IndexSet<Name> = names.into_iter().collect();
                Ok(Same(names.into_iter().map(|Name(name)| name).collect()))
            })
            .read(deserializer)
    }
}

impl JsonSchema for Bind {
    fn schema_name() -> Cow<'static, str> {
        "Bind".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A field, a list of fields, or a map of names to fields.",
            "oneOf": [
                { "type": "string" },
                { "type": "array", "items": { "type": "string" } },
                { "type": "object", "additionalProperties": { "type": "string" } },
            ],
        })
    }
}

impl JsonSchema for Same {
    fn schema_name() -> Cow<'static, str> {
        "Same".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A name, or a list of names.",
            "oneOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binds_are_short_or_long() {
        let check = |yaml: &str, expect: &[(&str, &str)]| {
            let bind: Bind = crate::yaml::from_str(yaml).unwrap();
            let found: Vec<_> = bind.0.iter().map(|(name, field)| (name.as_str(), field.as_str())).collect();
            assert_eq!(found, expect, "{yaml}");
        };
        check("pid", &[("pid", "pid")]);
        check("[pid, fd]", &[("pid", "pid"), ("fd", "fd")]);
        check("{ task: next_pid }", &[("task", "next_pid")]);
        assert_eq!(crate::yaml::from_str::<Same>("[pid, cpu]").unwrap().0, ["pid", "cpu"]);
        for wrong in ["''", "'a b'", "$x", "7"] {
            assert!(crate::yaml::from_str::<Bind>(wrong).is_err(), "{wrong}");
        }
        assert!(crate::yaml::from_str::<Same>("{ a: b }").is_err());
    }
}
