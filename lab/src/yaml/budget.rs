//! Limits of the expanded size and nesting of a file. Aliases of aliases expand a few hundred bytes to
//! gigabytes, so a first pass over the file counts nodes and bytes before anything is built from it.

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor,
};
use std::{cell::Cell, fmt};

/// Maximum number of keys, scalars, lists and maps in total, and of bytes of scalars.
const NODES_MAX: usize = 500_000;
const BYTES_MAX: usize = 4 << 20;

/// Maximum nesting of brackets. The parser's time grows with the square of the nesting: 100,000
/// brackets take 7 s, only to fail at the parser's own limit of 128 levels.
const BRACKETS_MAX: usize = 256;

/// Fails if `source` expands to more than a scenario can need, or is not YAML.
pub(crate) fn check(source: &str) -> Result<(), crate::yaml::Error> {
    let mut depth = 0_usize;
    for byte in source.bytes() {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > BRACKETS_MAX {
            return Err(Error::custom(format!("more than {BRACKETS_MAX} nested brackets")));
        }
    }
    let left = Left { nodes: Cell::new(NODES_MAX), bytes: Cell::new(BYTES_MAX) };
    Walk(&left).deserialize(crate::yaml::Deserializer::from_str(source))
}

struct Left {
    nodes: Cell<usize>,
    bytes: Cell<usize>,
}

#[derive(Clone, Copy)]
struct Walk<'a>(&'a Left);

impl Walk<'_> {
    fn node<E: Error>(self, bytes: usize) -> Result<(), E> {
        match (self.0.nodes.get().checked_sub(1), self.0.bytes.get().checked_sub(bytes)) {
            (Some(nodes), Some(bytes)) => {
                self.0.nodes.set(nodes);
                self.0.bytes.set(bytes);
                Ok(())
            }
            _ => Err(E::custom("aliases repeat too much, expected less than 4 MiB when expanded")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("YAML without tags")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.node(1)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.node(8)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.node(8)
    }

    fn visit_i128<E: Error>(self, _: i128) -> Result<(), E> {
        self.node(16)
    }

    fn visit_u128<E: Error>(self, _: u128) -> Result<(), E> {
        self.node(16)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.node(8)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.node(text.len())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.node(1)
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        self.node(1)
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<(), D::Error> {
        self.deserialize(inner)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        self.node(1)?;
        while list.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.node(1)?;
        while map.next_key_seed(self)?.is_some() {
            map.next_value_seed(self)?;
        }
        Ok(())
    }

    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<(), A::Error> {
        // The type that reads the tagged value rejects the tag, with a better message.
        let ((), inner) = tagged.variant_seed(self)?;
        inner.newtype_variant_seed(self)
    }
}
