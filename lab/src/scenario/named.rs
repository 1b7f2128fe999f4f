//! Maps of names in the order written, each name once.

use indexmap::IndexMap;
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor},
};
use std::{fmt, hash::Hash, marker::PhantomData};

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
    pub(super) fn read<'de, K, T, D>(self, deserializer: D) -> Result<IndexMap<K, T>, D::Error>
    where
        K: Deserialize<'de> + fmt::Display + Eq + Hash,
        T: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        deserializer.deserialize_map(Map { named: self, entry: PhantomData })
    }
}

struct Map<K, T> {
    named: Named,
    entry: PhantomData<(K, T)>,
}

impl<'de, K, T> Visitor<'de> for Map<K, T>
where
    K: Deserialize<'de> + fmt::Display + Eq + Hash,
    T: Deserialize<'de>,
{
    type Value = IndexMap<K, T>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a map of {}", self.named.map)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Named { what, max, .. } = self.named;
        let mut entries = IndexMap::new();
        while let Some((name, value)) = map.next_entry::<K, T>()? {
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
