//! Where in a file an item stands, and how it was written.

use super::{ScenarioError, Written};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::{fmt, path::Path};

/// One step on the way from a file's root to an item.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum At {
    Key(&'static str),
    Index(usize),
}

/// Something that is wrong with an item that YAML and types found nothing wrong with.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) path: Vec<At>,
    pub(super) message: String,
}

impl Problem {
    /// As an error with its place.
    pub(super) fn locate(self, file: &Path, source: &str) -> ScenarioError {
        let mut field = String::new();
        for step in &self.path {
            match step {
                At::Index(index) => field.push_str(&format!("[{index}]")),
                At::Key(_) => {
                    field.push_str(if field.is_empty() { "" } else { "." });
                    field.push_str(step.name());
                }
            }
        }
        let message = if field.is_empty() { self.message } else { format!("{field}: {}", self.message) };
        match place(source, &self.path) {
            Some(place) => ScenarioError::at(file, source, place, &message),
            None => ScenarioError::of_file(file, message),
        }
    }
}

impl At {
    fn name(&self) -> &str {
        match self {
            At::Key(name) => name,
            At::Index(_) => "steps",
        }
    }
}

/// Line and column, from 1, of the deepest item on `path` that is there.
pub(super) fn place(source: &str, path: &[At]) -> Option<(usize, usize)> {
    // The parser tells the place of an item only with an error, so it is made to have one there.
    let error = Descend(path).deserialize(serde_yaml::Deserializer::from_str(source)).err()?;
    error.location().map(|place| (place.line(), place.column()))
}

struct Descend<'a>(&'a [At]);

impl Descend<'_> {
    fn here<E: Error>() -> Result<(), E> {
        Err(E::custom("here"))
    }
}

impl<'de> DeserializeSeed<'de> for Descend<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Descend<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("anything")
    }

    // Every scalar that has no method here is an error by itself, at the same place.
    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Self::here()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Some((At::Index(index), rest)) = self.0.split_first() else { return Self::here() };
        for _ in 0..*index {
            list.next_element::<IgnoredAny>()?;
        }
        list.next_element_seed(Descend(rest))?;
        Self::here()
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        // What can be a list or a map that has the list under `steps` is reached either way.
        let Some((first, mut rest)) = self.0.split_first() else { return Self::here() };
        if matches!(first, At::Index(_)) {
            rest = self.0;
        }
        while let Some(key) = map.next_key::<String>()? {
            if key == first.name() {
                map.next_value_seed(Descend(rest))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Self::here()
    }
}

/// The longest text kept of one item, in characters.
const TEXT_MAX: usize = 400;

/// Above so many items that are not written one below the other, texts are left out: finding
/// each costs a walk through the file.
const SLOW_MAX: usize = 64;

/// Each item of the list under the top-level `key`, with how it was written.
pub(super) fn written<T>(source: &str, key: &'static str, items: Vec<T>) -> Vec<Written<T>> {
    let block = block_items(source, key);
    let count = items.len();
    let mut texts: Vec<(usize, String)> = Vec::new();
    if block.len() == count {
        texts = block;
    } else if count <= SLOW_MAX {
        for index in 0..count {
            let (line, _) = place(source, &[At::Key(key), At::Index(index)]).unwrap_or((1, 1));
            texts.push((line, format!("{key}[{index}]")));
        }
    }
    let mut texts = texts.into_iter();
    let with_text = |(index, value)| {
        let (line, text) = texts.next().unwrap_or_else(|| (1, format!("{key}[{index}]")));
        Written { text, line, value }
    };
    items.into_iter().enumerate().map(with_text).collect()
}

/// Line and text of each item of a list written one below the other under `key:`.
fn block_items(source: &str, key: &str) -> Vec<(usize, String)> {
    let mut items: Vec<(usize, String)> = Vec::new();
    let mut lines = source.lines().enumerate();
    let header = |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':'));
    if !lines.any(|(_, line)| header(line)) {
        return items;
    }
    let mut dash = None;
    for (index, line) in lines {
        let text = line.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        let item = text.strip_prefix('-').filter(|rest| rest.is_empty() || rest.starts_with(' '));
        match item {
            Some(text) if indent == *dash.get_or_insert(indent) => {
                items.push((index + 1, text.trim().to_owned()));
            }
            _ if indent == 0 => break,
            _ => match items.last_mut() {
                Some((_, before)) if before.len() < 4 * TEXT_MAX => {
                    before.push(' ');
                    before.push_str(text);
                }
                _ => {}
            },
        }
    }
    for (_, text) in &mut items {
        if text.chars().count() > TEXT_MAX {
            *text = text.chars().take(TEXT_MAX).chain(['…']).collect();
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "summary: x\nsteps:\n  # first\n  - write: a\n    text: b\n\n  - read: c\nexpect: [ {count: {event: e}} ]\n";

    #[test]
    fn items_are_found_by_their_path() {
        let check = |path: &[At], expect| assert_eq!(place(SOURCE, path), Some(expect), "{path:?}");
        check(&[At::Key("summary")], (1, 10));
        check(&[At::Key("steps"), At::Index(0)], (4, 5));
        check(&[At::Key("steps"), At::Index(0), At::Key("text")], (5, 11));
        check(&[At::Key("steps"), At::Index(1), At::Key("read")], (7, 11));
        check(&[At::Key("steps"), At::Index(1), At::Key("absent")], (7, 5));
        check(&[At::Key("expect"), At::Index(0), At::Key("count"), At::Key("event")], (8, 27));
    }

    #[test]
    fn items_keep_how_they_were_written() {
        let texts = |key, count: usize| -> Vec<(usize, String)> {
            written(SOURCE, key, vec![(); count]).into_iter().map(|item| (item.line, item.text)).collect()
        };
        assert_eq!(texts("steps", 2), [(4, "write: a text: b".to_owned()), (7, "read: c".to_owned())]);
        assert_eq!(texts("expect", 1), [(8, "expect[0]".to_owned())]);
    }
}
