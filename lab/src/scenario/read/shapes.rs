//! Values that YAML may write in more than one shape: a number or a map, a name or a list of names.
//!
//! `untagged` enums of serde buffer the value and lose the lines of errors in it, so this visits it.

use serde::{
    Deserialize, Deserializer,
    de::{
        Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor,
        value::{MapAccessDeserializer, SeqAccessDeserializer},
    },
};
use std::{fmt, marker::PhantomData};

/// Converts a value that was read, or describes the problem.
type Convert<V, T> = fn(V) -> Result<T, String>;

/// Like [`Convert`], of a string.
type ConvertText<T> = fn(&str) -> Result<T, String>;

/// The allowed shapes of a `T`, and the function that converts each. Any other shape is an error.
pub(in crate::scenario) struct Shapes<T, Item = IgnoredAny, Map = IgnoredAny> {
    expected: &'static str,
    number: Option<Convert<u64, T>>,
    integer: Option<Convert<i128, T>>,
    text: Option<ConvertText<T>>,
    list: Option<Convert<Vec<Item>, T>>,
    map: Option<Convert<Map, T>>,
}

impl<T> Shapes<T> {
    /// Allows no shape yet. `expected` lists the shapes for messages.
    pub(in crate::scenario) fn new(expected: &'static str) -> Shapes<T> {
        Shapes { expected, number: None, integer: None, text: None, list: None, map: None }
    }
}

impl<T, Item, Map> Shapes<T, Item, Map> {
    /// Allows an integer that is not negative.
    pub(in crate::scenario) fn number(self, read: Convert<u64, T>) -> Self {
        Shapes { number: Some(read), ..self }
    }

    /// Allows any 64-bit integer, signed or unsigned.
    pub(in crate::scenario) fn integer(self, read: Convert<i128, T>) -> Self {
        Shapes { integer: Some(read), ..self }
    }

    /// Allows a string.
    pub(in crate::scenario) fn text(self, read: ConvertText<T>) -> Self {
        Shapes { text: Some(read), ..self }
    }

    /// Allows a list.
    pub(in crate::scenario) fn list<I>(self, read: Convert<Vec<I>, T>) -> Shapes<T, I, Map> {
        let Shapes { expected, number, integer, text, list: _, map } = self;
        Shapes { expected, number, integer, text, list: Some(read), map }
    }

    /// Allows a map.
    pub(in crate::scenario) fn map<M>(self, read: Convert<M, T>) -> Shapes<T, Item, M> {
        let Shapes { expected, number, integer, text, list, map: _ } = self;
        Shapes { expected, number, integer, text, list, map: Some(read) }
    }

    /// Reads the value.
    pub(in crate::scenario) fn read<'de, D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error>
    where
        Item: Deserialize<'de>,
        Map: Deserialize<'de>,
    {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T, Item: Deserialize<'de>, Map: Deserialize<'de>> Visitor<'de> for Shapes<T, Item, Map> {
    type Value = T;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.expected)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        let value = match (self.number, self.integer) {
            (Some(read), _) => read(number),
            (None, Some(read)) => read(number.into()),
            (None, None) => return Err(E::invalid_type(Unexpected::Unsigned(number), &self)),
        };
        value.map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        let Some(read) = self.integer else {
            return Err(E::invalid_type(Unexpected::Signed(number), &self));
        };
        read(number.into()).map_err(E::custom)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        let Some(read) = self.text else { return Err(E::invalid_type(Unexpected::Str(text), &self)) };
        read(text).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<T, A::Error> {
        let Some(read) = self.list else { return Err(A::Error::invalid_type(Unexpected::Seq, &self)) };
        read(Vec::deserialize(SeqAccessDeserializer::new(list))?).map_err(A::Error::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        let Some(read) = self.map else { return Err(A::Error::invalid_type(Unexpected::Map, &self)) };
        read(Map::deserialize(MapAccessDeserializer::new(map))?).map_err(A::Error::custom)
    }
}

/// A map as the list of its entries, in the order written. A key may occur more than once.
pub(in crate::scenario) struct Entries<K, V>(pub(in crate::scenario) Vec<(K, V)>);

impl<'de, K: Deserialize<'de>, V: Deserialize<'de>> Deserialize<'de> for Entries<K, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map<K, V>(PhantomData<(K, V)>);

        impl<'de, K: Deserialize<'de>, V: Deserialize<'de>> Visitor<'de> for Map<K, V> {
            type Value = Entries<K, V>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<K, V>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(Map(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_allowed_shape_is_read_and_any_other_is_an_error() {
        let all = || {
            Shapes::new("all of them")
                .integer(|number| Ok(format!("integer {number}")))
                .text(|text| Ok(format!("text {text}")))
                .list(|items: Vec<u8>| Ok(format!("list {items:?}")))
                .map(|Entries(entries): Entries<String, u8>| Ok(format!("map {entries:?}")))
        };
        let none = || Shapes::<String>::new("none of them");
        let natural = || Shapes::new("a number").number(|number| Ok(format!("number {number}")));
        let check = |found: Result<String, crate::yaml::Error>, expect: &str| match found {
            Ok(found) => assert_eq!(found, expect),
            Err(error) => assert_eq!(error.to_string(), expect),
        };
        let yaml = crate::yaml::Deserializer::from_str;
        for (text, expect) in [
            ("7", "integer 7"),
            ("-7", "integer -7"),
            ("seven", "text seven"),
            ("[7, 8]", "list [7, 8]"),
            ("{ b: 1, a: 2, b: 3 }", r#"map [("b", 1), ("a", 2), ("b", 3)]"#),
            ("\n- 7\n- 300", ".[1]: invalid value: integer `300`, expected u8 at line 3 column 3"),
            ("true", "invalid type: boolean `true`, expected all of them"),
        ] {
            check(all().read(yaml(text)), expect);
        }
        for (text, expect) in [
            ("7", "invalid type: integer `7`, expected none of them"),
            ("-7", "invalid type: integer `-7`, expected none of them"),
            ("seven", r#"invalid type: string "seven", expected none of them"#),
            ("[7]", "invalid type: sequence, expected none of them"),
            ("{ a: 7 }", "invalid type: map, expected none of them"),
        ] {
            check(none().read(yaml(text)), expect);
        }
        check(natural().read(yaml("7")), "number 7");
        check(natural().read(yaml("-7")), "invalid type: integer `-7`, expected a number");
    }
}
