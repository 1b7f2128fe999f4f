//! How the events of one expectation belong together: `bind: pid`, `same: pid`, `by: {pid: next_pid}`.

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, SeqAccess, Visitor},
};
use std::{borrow::Cow, fmt};

/// Names and the fields they stand for. `bind: pid` is short for `bind: {pid: pid}`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bind(pub IndexMap<String, String>);

/// Fields that have the values bound earlier: `same: pid` or `same: [pid, fd]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Same(pub Vec<String>);

/// A field's or variable's name.
fn name<E: de::Error>(text: &str) -> Result<String, E> {
    let good = |(i, c): (usize, char)| c == '_' || c.is_ascii_alphabetic() || (i > 0 && c.is_ascii_digit());
    if text.is_empty() || !text.chars().enumerate().all(good) {
        return Err(E::custom(format!(
            "`{text}` is not a field's name, expected letters, digits and underscores"
        )));
    }
    Ok(text.to_owned())
}

/// A [`name`], parsed where YAML knows the line.
struct Name(String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Name;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a field's name")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Name, E> {
                name(text).map(Name)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// One name, a list of names, or (for [`Bind`] only) a map.
struct Names {
    map_allowed: bool,
}

impl<'de> Visitor<'de> for Names {
    type Value = IndexMap<String, String>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a field, a list of fields")?;
        out.write_str(if self.map_allowed { ", or a map of names to fields" } else { "" })
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        let name: String = name(text)?;
        Ok(IndexMap::from([(name.clone(), name)]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut names = IndexMap::new();
        while let Some(Name(name)) = list.next_element()? {
            names.insert(name.clone(), name);
        }
        Ok(names)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        if !self.map_allowed {
            return Err(de::Error::invalid_type(de::Unexpected::Map, &self));
        }
        let mut names = IndexMap::new();
        while let Some((Name(name), Name(field))) = map.next_entry()? {
            if names.insert(name.clone(), field).is_some() {
                return Err(de::Error::custom(format!("`{name}` is there twice")));
            }
        }
        Ok(names)
    }
}

impl<'de> Deserialize<'de> for Bind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bind, D::Error> {
        deserializer.deserialize_any(Names { map_allowed: true }).map(Bind)
    }
}

impl<'de> Deserialize<'de> for Same {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Same, D::Error> {
        let names = deserializer.deserialize_any(Names { map_allowed: false })?;
        Ok(Same(names.into_keys().collect()))
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
            let bind: Bind = serde_yaml::from_str(yaml).unwrap();
            let found: Vec<_> = bind.0.iter().map(|(name, field)| (name.as_str(), field.as_str())).collect();
            assert_eq!(found, expect, "{yaml}");
        };
        check("pid", &[("pid", "pid")]);
        check("[pid, fd]", &[("pid", "pid"), ("fd", "fd")]);
        check("{ task: next_pid }", &[("task", "next_pid")]);
        assert_eq!(serde_yaml::from_str::<Same>("[pid, cpu]").unwrap().0, ["pid", "cpu"]);
        for wrong in ["''", "'a b'", "$x", "7"] {
            assert!(serde_yaml::from_str::<Bind>(wrong).is_err(), "{wrong}");
        }
        assert!(serde_yaml::from_str::<Same>("{ a: b }").is_err());
    }
}
