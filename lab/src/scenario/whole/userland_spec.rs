//! `userland:`, the Debian userland of a scenario's guest.

use crate::scenario::read::{
    scalar::{FromText, from_text},
    shapes::{Entries, Shapes},
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use std::{borrow::Cow, fmt};

/// Maximum number of packages that one scenario may add.
const PACKAGES_MAX: usize = 50;

/// A userland of `guest/userland/`, and packages to add: `debian`, or `{ debian: [bpftrace] }`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UserlandSpec {
    /// The name of a file in `guest/userland/`.
    pub name: UserlandName,
    /// Packages in addition to those of the file.
    pub packages: Vec<PackageName>,
}

impl UserlandSpec {
    /// Returns the userland `name` without additional packages.
    ///
    /// # Errors
    /// Fails for an invalid name.
    pub fn named(name: &str) -> Result<UserlandSpec, String> {
        Ok(UserlandSpec { name: UserlandName::from_text(name)?, packages: Vec::new() })
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

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
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
    /// The name of a Debian package, as defined by its policy. A leading dash would be an option of
    /// apt.
    PackageName, "the name of a Debian package", "+-.", "^[a-z0-9][a-z0-9+.-]+$"
}

impl<'de> Deserialize<'de> for UserlandSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UserlandSpec, D::Error> {
        Shapes::new("a userland such as `debian`, or one with packages such as `{ debian: [perf] }`")
            .text(UserlandSpec::named)
            .map(|Entries(entries): Entries<UserlandName, Vec<PackageName>>| {
                let mut entries = entries.into_iter();
                match (entries.next(), entries.next()) {
                    (None, _) => Err("an empty map, expected one userland".to_owned()),
                    (_, Some(_)) => Err("a second key, expected one userland".to_owned()),
                    (Some((_, packages)), _) if packages.len() > PACKAGES_MAX => {
                        Err(format!("{} packages, expected at most {PACKAGES_MAX}", packages.len()))
                    }
                    (Some((name, packages)), None) => Ok(UserlandSpec { name, packages }),
                }
            })
            .read(deserializer)
    }
}

impl JsonSchema for UserlandSpec {
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
            let found = crate::yaml::from_str::<UserlandSpec>(yaml).map_err(|error| error.to_string());
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
