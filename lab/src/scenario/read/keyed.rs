//! Maps whose first key selects their kind: steps, events, expectations.
//!
//! serde supports no shape for them that keeps YAML locations (`untagged` and `flatten` buffer the map
//! and lose every line number), so two macros generate the visitors. Both read the first key, choose
//! the type by it, and let that type read the rest straight from the parser. The documentation of a
//! kind begins with an example in backticks, which the scenario reference shows.

use crate::words::unknown;
use serde::{
    Deserialize,
    de::{
        DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, Visitor,
        value::MapAccessDeserializer,
    },
};
use std::{fmt, marker::PhantomData};

/// A map's first key, which must be one of `verbs`. An error points at the key.
pub(in crate::scenario) struct Verb {
    /// The kind of item, as in "step".
    pub(in crate::scenario) what: &'static str,
    pub(in crate::scenario) verbs: &'static [&'static str],
}

impl<'de> DeserializeSeed<'de> for Verb {
    type Value = &'static str;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<&'static str, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Verb {
    type Value = &'static str;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the kind of {} as its first key: {}", self.what, self.verbs.join(", "))
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<&'static str, E> {
        let known = self.verbs.iter().find(|verb| **verb == key);
        known.copied().ok_or_else(|| {
            E::custom(unknown(&format!("kind of {} as the first key", self.what), key, self.verbs))
        })
    }
}

/// The end of a map that has one key only. An error points at the second key.
pub(in crate::scenario) struct NoSecondKey {
    pub(in crate::scenario) what: &'static str,
}

impl<'de> DeserializeSeed<'de> for NoSecondKey {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for NoSecondKey {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "no second key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<(), E> {
        Err(E::custom(format!(
            "`{key}` is a second key, but {} has only one, expected it inside the first key's value \
             or as a separate item",
            self.what
        )))
    }
}

/// A map with its first key put back.
pub(in crate::scenario) struct Replay<'de, A> {
    first: Option<&'static str>,
    rest: A,
    lifetime: PhantomData<&'de ()>,
}

impl<A> Replay<'_, A> {
    pub(in crate::scenario) fn new(first: &'static str, rest: A) -> Self {
        Replay { first: Some(first), rest, lifetime: PhantomData }
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Replay<'de, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        match self.first.take() {
            Some(first) => seed.deserialize(first.into_deserializer()).map(Some),
            None => self.rest.next_key_seed(seed),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.rest.next_value_seed(seed)
    }
}

/// Reads a type in which the verb is one of the fields.
pub(in crate::scenario) fn beside_verb<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
    verb: &'static str,
    map: A,
    _what: &'static str,
) -> Result<T, A::Error> {
    T::deserialize(MapAccessDeserializer::new(Replay::new(verb, map)))
}

/// Reads a type that is the value of the verb, the only key.
pub(in crate::scenario) fn below_verb<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
    _verb: &'static str,
    mut map: A,
    what: &'static str,
) -> Result<T, A::Error> {
    let value = map.next_value()?;
    map.next_key_seed(NoSecondKey { what })?;
    Ok(value)
}

/// Defines an enum read from a map whose first key, the verb, is followed by other fields:
/// `kprobe: vfs_write`, `name: w`. The variant's type has the verb as a field.
macro_rules! verb_keyed {
    (
        $(#[$meta:meta])*
        pub enum $name:ident is $what:literal {
            $($(#[doc = $example:literal])+ $verb:literal => $variant:ident,)+
        }
    ) => {
        $crate::scenario::read::keyed::keyed_enum! {
            $(#[$meta])* $name $what { $($(#[doc = $example])+ $verb => $variant,)+ }
            beside_verb
        }

        impl $crate::scenario::Describe for $name {
            fn describe(&self) -> String {
                match self {
                    $($name::$variant(it) => $crate::scenario::Describe::describe(it),)+
                }
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let kinds = [$(generator.subschema_for::<$variant>()),+];
                schemars::json_schema!({ "oneOf": kinds })
            }
        }
    };
}

/// Defines an enum read from a map of one key, the verb, whose value is the variant's: `count: { … }`.
macro_rules! one_keyed {
    (
        $(#[$meta:meta])*
        pub enum $name:ident is $what:literal {
            $($(#[doc = $example:literal])+ $verb:literal => $variant:ident,)+
        }
    ) => {
        $crate::scenario::read::keyed::keyed_enum! {
            $(#[$meta])* $name $what { $($(#[doc = $example])+ $verb => $variant,)+ }
            below_verb
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let kinds = [$(schemars::json_schema!({
                    "type": "object",
                    "properties": { $verb: generator.subschema_for::<$variant>() },
                    "required": [$verb],
                    "additionalProperties": false,
                })),+];
                schemars::json_schema!({ "oneOf": kinds })
            }
        }
    };
}

/// Defines the common part: the enum, its verbs, and a visitor that chooses by the first key.
macro_rules! keyed_enum {
    (
        $(#[$meta:meta])* $name:ident $what:literal {
            $($(#[doc = $example:literal])+ $verb:literal => $variant:ident,)+
        }
        $read:ident
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name {
            $($(#[doc = $example])+ $variant($variant),)+
        }

        impl $name {
            /// The first keys of all kinds.
            pub const VERBS: &'static [&'static str] = &[$($verb),+];

            /// The first documentation line of each of [`Self::VERBS`]: an example in backticks.
            pub(in crate::scenario) const EXAMPLES: &'static [&'static str] = &[$(concat!($($example),+)),+];

            /// Returns the first key that selects this kind.
            pub fn verb(&self) -> &'static str {
                match self {
                    $($name::$variant(_) => $verb,)+
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct First;
                impl<'de> serde::de::Visitor<'de> for First {
                    type Value = $name;

                    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        write!(out, "{}: a map whose first key is one of ", $what)?;
                        out.write_str(&$name::VERBS.join(", "))
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(
                        self,
                        mut map: A,
                    ) -> Result<$name, A::Error> {
                        let verb = $crate::scenario::read::keyed::Verb { what: $what, verbs: $name::VERBS };
                        let Some(verb) = map.next_key_seed(verb)? else {
                            return Err(serde::de::Error::invalid_length(0, &self));
                        };
                        $(if verb == $verb {
                            let value: Result<$variant, A::Error> =
                                $crate::scenario::read::keyed::$read(verb, map, $what);
                            return value.map($name::$variant);
                        })+
                        Err(serde::de::Error::unknown_variant(verb, $name::VERBS))
                    }
                }
                deserializer.deserialize_map(First)
            }
        }
    };
}

pub(in crate::scenario) use {keyed_enum, one_keyed, verb_keyed};
