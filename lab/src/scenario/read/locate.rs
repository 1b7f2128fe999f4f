//! Locations of items in a file, and their text as written.

use crate::scenario::{ScenarioError, Written};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::{fmt, path::Path};

/// One step on the path from a file's root to an item.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::scenario) enum PathSegment {
    Key(&'static str),
    Index(usize),
}

/// A problem found by a check after parsing.
#[derive(Debug)]
pub(in crate::scenario) struct Problem {
    pub(in crate::scenario) path: Vec<PathSegment>,
    pub(in crate::scenario) message: String,
}

impl Problem {
    /// Converts it to an error with its location.
    pub(in crate::scenario) fn locate(self, file: &Path, source: &str) -> ScenarioError {
        let mut field = String::new();
        for step in &self.path {
            match step {
                PathSegment::Index(index) => field.push_str(&format!("[{index}]")),
                PathSegment::Key(_) => {
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

impl PathSegment {
    fn name(&self) -> &str {
        match self {
            PathSegment::Key(name) => name,
            PathSegment::Index(_) => "steps",
        }
    }
}

/// Returns line and column, from 1, of the deepest existing item on `path`.
pub(in crate::scenario) fn place(source: &str, path: &[PathSegment]) -> Option<(usize, usize)> {
    // The parser reports the location of an item only with an error, so this provokes one there.
    let error = Descend(path).deserialize(crate::yaml::Deserializer::from_str(source)).err()?;
    error.location().map(|place| (place.line(), place.column()))
}

struct Descend<'a>(&'a [PathSegment]);

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

    // Every scalar without a method here is an error by itself, at the same place.
    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Self::here()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Some((PathSegment::Index(index), rest)) = self.0.split_first() else { return Self::here() };
        for _ in 0..*index {
            list.next_element::<IgnoredAny>()?;
        }
        list.next_element_seed(Descend(rest))?;
        Self::here()
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        // A list may also be written as a map with the list under `steps`; the path leads to both.
        let Some((first, mut rest)) = self.0.split_first() else { return Self::here() };
        if matches!(first, PathSegment::Index(_)) {
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

/// Maximum length of an item's text, in characters.
const TEXT_MAX: usize = 400;

/// Above this many items that are not in block style, texts are omitted: finding each takes a pass over
/// the file.
const SLOW_MAX: usize = 64;

/// Returns each item of the list under the top-level `key`, with its text as written.
pub(in crate::scenario) fn written<T>(source: &str, key: &'static str, items: Vec<T>) -> Vec<Written<T>> {
    let block = block_items(source, key);
    let count = items.len();
    let mut texts: Vec<(usize, String)> = Vec::new();
    if block.len() == count {
        texts = block;
    } else if count <= SLOW_MAX {
        for index in 0..count {
            let (line, _) =
                place(source, &[PathSegment::Key(key), PathSegment::Index(index)]).unwrap_or((1, 1));
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

/// Returns line and text of each item of a list in block style under `key:`.
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
        let check = |path: &[PathSegment], expect| assert_eq!(place(SOURCE, path), Some(expect), "{path:?}");
        check(&[PathSegment::Key("summary")], (1, 10));
        check(&[PathSegment::Key("steps"), PathSegment::Index(0)], (4, 5));
        check(&[PathSegment::Key("steps"), PathSegment::Index(0), PathSegment::Key("text")], (5, 11));
        check(&[PathSegment::Key("steps"), PathSegment::Index(1), PathSegment::Key("read")], (7, 11));
        check(&[PathSegment::Key("steps"), PathSegment::Index(1), PathSegment::Key("absent")], (7, 5));
        check(
            &[
                PathSegment::Key("expect"),
                PathSegment::Index(0),
                PathSegment::Key("count"),
                PathSegment::Key("event"),
            ],
            (8, 27),
        );
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
