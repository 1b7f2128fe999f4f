//! Maps of names in the order written, each name once.

use indexmap::IndexMap;
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor},
};
use std::{fmt, hash::Hash, marker::PhantomData};

/// Descriptions and limit of a map's entries, for messages.
pub(in crate::scenario) struct Named {
    /// A single entry, as in "argument".
    pub(in crate::scenario) what: &'static str,
    /// All entries, as in "argument names to fetch arguments".
    pub(in crate::scenario) map: &'static str,
    /// Maximum number of entries.
    pub(in crate::scenario) max: usize,
}

impl Named {
    /// Reads such a map.
    pub(in crate::scenario) fn read<'de, K, T, D>(self, deserializer: D) -> Result<IndexMap<K, T>, D::Error>
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
                return Err(A::Error::custom(format!("{what} `{name}` appears twice; remove or rename one")));
            }
            entries.insert(name, value);
            if entries.len() > max {
                return Err(A::Error::custom(format!("more than {max} {what}s")));
            }
        }
        Ok(entries)
    }
}
