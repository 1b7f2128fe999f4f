//! Maps of names in the order written, each name once.

use crate::scenario::names::ArgName;
use indexmap::IndexMap;
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor},
};
use std::{fmt, marker::PhantomData};

/// What a map's entries are.
pub(super) struct Named {
    /// One of them, as in "argument".
    pub(super) what: &'static str,
    /// All of them, as in "argument names to fetch args".
    pub(super) map: &'static str,
    /// The most there may be.
    pub(super) max: usize,
}

impl Named {
    /// Reads such a map.
    pub(super) fn read<'de, T, D>(self, deserializer: D) -> Result<IndexMap<ArgName, T>, D::Error>
    where
        T: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        deserializer.deserialize_map(Map { named: self, value: PhantomData })
    }
}

struct Map<T> {
    named: Named,
    value: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Map<T> {
    type Value = IndexMap<ArgName, T>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a map of {}", self.named.map)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Named { what, max, .. } = self.named;
        let mut entries = IndexMap::new();
        while let Some((name, value)) = map.next_entry::<ArgName, T>()? {
            if entries.contains_key(&name) {
                return Err(A::Error::custom(format!("{what} `{name}` is there twice")));
            }
            entries.insert(name, value);
            if entries.len() > max {
                return Err(A::Error::custom(format!("more than {max} {what}s")));
            }
        }
        Ok(entries)
    }
}
