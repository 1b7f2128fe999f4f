//! How text is checked: a workload's output, a file's content, a log.

use super::text::{FromText, both_ends, excerpt, from_text};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use std::{borrow::Cow, fmt};

/// What a text must be. A plain YAML string means `contains`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextCheck {
    /// The whole text, but for one newline at its end.
    pub equal: Option<String>,
    /// Each of these is somewhere in it.
    pub contains: Vec<String>,
    /// None of these is anywhere in it.
    pub never: Vec<String>,
    /// It matches somewhere; `^` and `$` are those of lines.
    pub matches: Option<Pattern>,
    /// What it ends with, but for one newline.
    pub ends_with: Option<String>,
}

/// The most of a text that a message repeats, in characters.
const SHOWN: usize = 600;

impl TextCheck {
    /// Checks `text`. The error says what was expected and shows the text, cut to a bounded length.
    pub fn check(&self, text: &str) -> Result<(), String> {
        let bare = text.strip_suffix('\n').unwrap_or(text);
        let fail = |what: String| Err(format!("{what}; it is \"{}\"", both_ends(text, SHOWN)));
        if let Some(equal) = &self.equal
            && bare != equal.strip_suffix('\n').unwrap_or(equal)
        {
            return fail(format!("expected the text to equal \"{}\"", excerpt(equal, SHOWN)));
        }
        if let Some(absent) = self.contains.iter().find(|part| !text.contains(part.as_str())) {
            return fail(format!("expected the text to contain \"{}\"", excerpt(absent, SHOWN)));
        }
        let forbidden = |line: &(usize, &str)| self.never.iter().find(|part| line.1.contains(part.as_str()));
        let lines = || text.lines().enumerate();
        if let Some((number, line, part)) =
            lines().find_map(|line| Some((line.0 + 1, line.1, forbidden(&line)?)))
        {
            let (part, line) = (excerpt(part, SHOWN), excerpt(line, SHOWN));
            return Err(format!(
                "expected the text never to contain \"{part}\", found in its line {number}: \"{line}\""
            ));
        }
        // One that goes over several lines.
        if let Some(part) = self.never.iter().find(|part| text.contains(part.as_str())) {
            return fail(format!("expected the text never to contain \"{}\"", excerpt(part, SHOWN)));
        }
        if let Some(pattern) = &self.matches
            && !pattern.0.is_match(text)
        {
            // As written: another backslash before each would make it another expression.
            let pattern: String = pattern.0.as_str().chars().take(SHOWN).collect();
            return fail(format!("expected the text to match /{pattern}/"));
        }
        if let Some(end) = &self.ends_with
            && !bare.ends_with(end.strip_suffix('\n').unwrap_or(end))
        {
            return fail(format!("expected the text to end with \"{}\"", excerpt(end, SHOWN)));
        }
        Ok(())
    }

    /// The same with each text as `expand` makes it. A regular expression stays as it is.
    pub fn expanded<E>(&self, expand: impl Fn(&str) -> Result<String, E>) -> Result<TextCheck, E> {
        let all = |texts: &[String]| texts.iter().map(|text| expand(text)).collect::<Result<Vec<_>, E>>();
        Ok(TextCheck {
            equal: self.equal.as_deref().map(&expand).transpose()?,
            contains: all(&self.contains)?,
            never: all(&self.never)?,
            matches: self.matches.clone(),
            ends_with: self.ends_with.as_deref().map(&expand).transpose()?,
        })
    }

    /// Whether nothing is asked of the text.
    pub fn is_empty(&self) -> bool {
        *self == TextCheck::default()
    }
}

/// A regular expression; `^` and `$` are those of lines.
#[derive(Clone, Debug)]
pub struct Pattern(pub regex::Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl FromText for Pattern {
    const EXPECTED: &'static str = "a regular expression";

    fn from_text(text: &str) -> Result<Pattern, String> {
        let built = regex::RegexBuilder::new(text).multi_line(true).size_limit(1 << 20).build();
        built.map(Pattern).map_err(|error| {
            // The crate's own message is several lines with a marker; the last one is the cause.
            let message = error.to_string();
            let cause = message.lines().last().unwrap_or_default();
            format!("bad regular expression: {}", cause.trim_start_matches("error: "))
        })
    }
}

from_text!(Pattern, { "type": "string", "format": "regex" });

/// The map form, and the schema of both.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TextCheckMap")]
struct Map {
    /// The whole text, but for one newline at its end.
    #[serde(default)]
    equal: Option<String>,
    /// Each of these is somewhere in the text.
    #[serde(default)]
    contains: Strings,
    /// None of these is anywhere in the text.
    #[serde(default)]
    never: Strings,
    /// A regular expression that matches somewhere in the text; `^` and `$` are those of lines.
    #[serde(default)]
    matches: Option<Pattern>,
    /// What the text ends with, but for one newline.
    #[serde(default)]
    ends_with: Option<String>,
}

impl<'de> Deserialize<'de> for TextCheck {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TextCheck, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = TextCheck;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("the text it contains, or a map of equal, contains, never, matches, ends_with")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<TextCheck, E> {
                Ok(TextCheck { contains: vec![text.to_owned()], ..TextCheck::default() })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TextCheck, A::Error> {
                let map = Map::deserialize(MapAccessDeserializer::new(map))?;
                let check = TextCheck {
                    equal: map.equal,
                    contains: map.contains.0,
                    never: map.never.0,
                    matches: map.matches,
                    ends_with: map.ends_with,
                };
                if check.is_empty() {
                    return Err(de::Error::invalid_length(0, &self));
                }
                Ok(check)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for TextCheck {
    fn schema_name() -> Cow<'static, str> {
        "TextCheck".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "What a text must be. A plain string means `contains`.",
            "oneOf": [{ "type": "string" }, generator.subschema_for::<Map>()],
        })
    }
}

/// A string or a list of strings.
#[derive(Default)]
pub(super) struct Strings(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for Strings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Strings, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Strings;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a string or a list of strings")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Strings, E> {
                Ok(Strings(vec![text.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Strings, A::Error> {
                let mut strings = Vec::new();
                while let Some(text) = list.next_element()? {
                    strings.push(text);
                }
                Ok(Strings(strings))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for Strings {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Strings".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "oneOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(yaml: &str, text: &str, expect: Result<(), &str>) {
        let parsed: TextCheck = serde_yaml::from_str(yaml).unwrap();
        let found = parsed.check(text);
        match (&found, expect) {
            (Ok(()), Ok(())) => {}
            (Err(found), Err(expect)) if found.contains(expect) => {}
            _ => panic!("{yaml} on {text:?}: {found:?}, expected {expect:?}"),
        }
    }

    #[test]
    fn each_kind_of_check_can_pass_and_fail() {
        check("read 28", "Parent read 28 (0x1c)\n", Ok(()));
        check("read 29", "Parent read 28\n", Err("to contain \"read 29\"; it is \"Parent read 28\\n\""));
        check("equal: a", "a\n", Ok(()));
        check("equal: a", "a\n\n", Err("to equal \"a\""));
        check("{ equal: '' }", "", Ok(()));
        check("contains: [a, b]", "b a", Ok(()));
        check("contains: [a, b]", "a", Err("to contain \"b\""));
        check("never: BUG", "fine", Ok(()));
        check("never: BUG", "x\nBUG: y", Err("never to contain \"BUG\", found in its line 2: \"BUG: y\""));
        check("never: \"a\\nb\"", "x\na\nb", Err("never to contain \"a\\nb\"; it is"));
        check("matches: '^b\\d$'", "abc", Err("to match /^b\\d$/; it is \"abc\""));
        check("matches: '^b$'", "a\nb\nc", Ok(()));
        check("matches: '^b$'", "abc", Err("to match /^b$/"));
        check("ends_with: efd", "from efd\n", Ok(()));
        check("ends_with: efd", "efd!", Err("to end with \"efd\""));
    }

    #[test]
    fn texts_may_stand_for_others_and_a_pattern_for_itself() {
        let yaml = "{ equal: a, contains: [b, c], never: d, ends_with: e, matches: 'f{2}' }";
        let parsed: TextCheck = serde_yaml::from_str(yaml).unwrap();
        let expanded = parsed.expanded(|text| Ok::<_, ()>(format!("{text}{text}"))).unwrap();
        let yaml = "{ equal: aa, contains: [bb, cc], never: dd, ends_with: ee, matches: 'f{2}' }";
        assert_eq!(expanded, serde_yaml::from_str(yaml).unwrap());
        assert_eq!(parsed.expanded(|text| Err(text.to_owned())).unwrap_err(), "a");
    }

    #[test]
    fn a_long_text_is_cut() {
        let long = "x".repeat(100_000);
        let error = TextCheck { equal: Some("y".into()), ..TextCheck::default() }.check(&long).unwrap_err();
        assert!(error.len() < 1000 && error.contains("x… (99400 more characters) …x"), "{error}");
        let log = format!("first\n{long}\nlast");
        let error = TextCheck { contains: vec!["y".into()], ..TextCheck::default() }.check(&log).unwrap_err();
        assert!(error.contains("\"first\\nx") && error.ends_with("x\\nlast\""), "{error}");
    }

    #[test]
    fn what_is_no_check_is_refused() {
        for yaml in ["{}", "equals: x", "[a]", "matches: '('"] {
            assert!(serde_yaml::from_str::<TextCheck>(yaml).is_err(), "{yaml}");
        }
    }
}
