//! `userland:`, the whole Debian userland that a scenario's guest has.

use super::text::{FromText, from_text};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor},
};
use std::{borrow::Cow, fmt};

/// Packages that one scenario may add.
const PACKAGES_MAX: usize = 50;

/// One of `guest/userland/`, and what a scenario adds to it: `debian`, or `{ debian: [bpftrace] }`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WantedUserland {
    /// The name of a file of `guest/userland/`.
    pub name: UserlandName,
    /// Packages beside its own.
    pub packages: Vec<PackageName>,
}

impl WantedUserland {
    /// The userland `name` as it is.
    ///
    /// # Errors
    /// What cannot be the name of one.
    pub fn named(name: &str) -> Result<WantedUserland, String> {
        Ok(WantedUserland { name: UserlandName::from_text(name)?, packages: Vec::new() })
    }
}

macro_rules! name {
    ($(#[$meta:meta])* $name:ident, $expected:literal, $characters:literal, $pattern:literal) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(String);

        impl $name {
            /// As written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromText for $name {
            const EXPECTED: &'static str = $expected;

            fn from_text(text: &str) -> Result<$name, String> {
                let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || $characters.contains(c);
                let first = text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
                if !(2..=100).contains(&text.len()) || !first || !text.chars().all(good) {
                    return Err(format!("`{}`, expected {}", text.escape_debug(), $expected));
                }
                Ok($name(text.to_owned()))
            }
        }

        from_text!($name, { "type": "string", "pattern": $pattern });
    };
}

name! {
    /// The name of a userland.
    UserlandName, "the name of a file of guest/userland/", "-", "^[a-z0-9][a-z0-9-]+$"
}

name! {
    /// The name of a Debian package, as its policy has it. What begins with a dash would be an option of apt's.
    PackageName, "the name of a Debian package", "+-.", "^[a-z0-9][a-z0-9+.-]+$"
}

impl<'de> Deserialize<'de> for WantedUserland {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WantedUserland, D::Error> {
        struct Userland;

        impl<'de> Visitor<'de> for Userland {
            type Value = WantedUserland;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(
                    "a userland such as `debian`, or one with packages such as `{ debian: [perf] }`",
                )
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<WantedUserland, E> {
                WantedUserland::named(text).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WantedUserland, A::Error> {
                let Some((name, packages)) = map.next_entry::<UserlandName, Vec<PackageName>>()? else {
                    return Err(A::Error::custom("an empty map, expected one userland"));
                };
                if map.next_key::<String>()?.is_some() {
                    return Err(A::Error::custom("a second key, expected one userland"));
                }
                if packages.len() > PACKAGES_MAX {
                    let count = packages.len();
                    return Err(A::Error::custom(format!(
                        "{count} packages, expected at most {PACKAGES_MAX}"
                    )));
                }
                Ok(WantedUserland { name, packages })
            }
        }

        deserializer.deserialize_any(Userland)
    }
}

impl JsonSchema for WantedUserland {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Userland".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let name = generator.subschema_for::<UserlandName>();
        let packages = generator.subschema_for::<Vec<PackageName>>();
        let map = json_schema!({
            "type": "object", "additionalProperties": packages, "minProperties": 1, "maxProperties": 1
        });
        json_schema!({ "anyOf": [name, map] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_userland_has_a_name_and_maybe_packages() {
        let check = |yaml: &str, expect: Result<(&str, &[&str]), &str>| {
            let found = serde_yaml::from_str::<WantedUserland>(yaml).map_err(|error| error.to_string());
            match (found, expect) {
                (Ok(found), Ok((name, packages))) => {
                    assert_eq!(found.name.as_str(), name);
                    assert_eq!(found.packages.iter().map(PackageName::as_str).collect::<Vec<_>>(), packages);
                }
                (Err(found), Err(expect)) => assert!(found.contains(expect), "{found}"),
                (found, expect) => panic!("found {found:?}, expected {expect:?}"),
            }
        };
        check("debian", Ok(("debian", &[])));
        check("{ debian: [bpftrace, libstdc++6] }", Ok(("debian", &["bpftrace", "libstdc++6"])));
        check("{ debian: [] }", Ok(("debian", &[])));
        check("../debian", Err("expected the name of a file of guest/userland/"));
        check("{ debian: [--download-only] }", Err("expected the name of a Debian package"));
        check("{ debian: ['a b'] }", Err("expected the name of a Debian package"));
        check("{ debian: [], ubuntu: [] }", Err("a second key"));
        check("{}", Err("an empty map"));
        check("3", Err("expected a userland such as `debian`"));
    }
}
