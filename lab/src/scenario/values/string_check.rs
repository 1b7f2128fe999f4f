//! Checks of strings: a workload's output, a file's content, a log.

use crate::{
    scenario::read::{
        scalar::{FromText, from_text},
        shapes::Shapes,
    },
    words::{both_ends, excerpt},
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;

/// A check of a string. A plain YAML string means `contains`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextCheck {
    /// The whole string, apart from one trailing newline.
    pub equal: Option<String>,
    /// Substrings that must occur.
    pub contains: Vec<String>,
    /// Substrings that must not occur.
    pub never: Vec<String>,
    /// Regular expression that must match somewhere; `^` and `$` match at line boundaries.
    pub matches: Option<Pattern>,
    /// The end of the string, apart from one trailing newline.
    pub ends_with: Option<String>,
}

/// Maximum number of characters of a string in a message.
const SHOWN: usize = 600;

impl TextCheck {
    /// Checks `text`. The error names the failed check and shows the string, truncated.
    pub fn check(&self, text: &str) -> Result<(), String> {
        self.check_showing(text, || format!("it is \"{}\"", both_ends(text, SHOWN)))
    }

    /// Checks `text`. The error names the failed check and has what `shown` returns of the string, unless it names
    /// the line that is wrong.
    pub fn check_showing(&self, text: &str, shown: impl Fn() -> String) -> Result<(), String> {
        let bare = text.strip_suffix('\n').unwrap_or(text);
        let fail = |what: String| Err(format!("{what}; {}", shown()));
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
        // A pattern that spans several lines.
        if let Some(part) = self.never.iter().find(|part| text.contains(part.as_str())) {
            return fail(format!("expected the text never to contain \"{}\"", excerpt(part, SHOWN)));
        }
        if let Some(pattern) = &self.matches
            && !pattern.0.is_match(text)
        {
            // As written: escaping backslashes would change the expression.
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

    /// Returns whether passing on the beginning or the end of a text says nothing about all of it.
    pub fn needs_all(&self) -> bool {
        self.equal.is_some() || !self.never.is_empty() || self.matches.is_some() || self.ends_with.is_some()
    }

    /// Returns the check with `expand` applied to each string except the regular expression.
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

    /// Returns whether it checks nothing.
    pub fn is_empty(&self) -> bool {
        *self == TextCheck::default()
    }
}

/// A regular expression; `^` and `$` match at line boundaries.
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
            // The crate's message has several lines with a marker; the last one is the cause.
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
    /// Requires the whole string to equal this, apart from one trailing newline.
    #[serde(default)]
    equal: Option<String>,
    /// Requires each of these substrings to occur.
    #[serde(default)]
    contains: Strings,
    /// Requires that none of these substrings occurs.
    #[serde(default)]
    never: Strings,
    /// Requires this regular expression to match somewhere; `^` and `$` match at line boundaries.
    #[serde(default)]
    matches: Option<Pattern>,
    /// Requires the string to end with this, apart from one trailing newline.
    #[serde(default)]
    ends_with: Option<String>,
}

const EXPECTED: &str = "a string it must contain, or a map of equal, contains, never, matches, ends_with";

impl<'de> Deserialize<'de> for TextCheck {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TextCheck, D::Error> {
        Shapes::new(EXPECTED)
            .text(|text| Ok(TextCheck { contains: vec![text.to_owned()], ..TextCheck::default() }))
            .map(|Map { equal, contains: Strings(contains), never: Strings(never), matches, ends_with }| {
                let check = TextCheck { equal, contains, never, matches, ends_with };
                if check.is_empty() {
                    return Err(format!("invalid length 0, expected {EXPECTED}"));
                }
                Ok(check)
            })
            .read(deserializer)
    }
}

impl JsonSchema for TextCheck {
    fn schema_name() -> Cow<'static, str> {
        "TextCheck".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A check of a string. A plain string means `contains`.",
            "oneOf": [{ "type": "string" }, generator.subschema_for::<Map>()],
        })
    }
}

/// A string or a list of strings.
#[derive(Default)]
pub(in crate::scenario) struct Strings(pub(in crate::scenario) Vec<String>);

impl<'de> Deserialize<'de> for Strings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Strings, D::Error> {
        Shapes::new("a string or a list of strings")
            .text(|text| Ok(Strings(vec![text.to_owned()])))
            .list(|strings| Ok(Strings(strings)))
            .read(deserializer)
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
        let parsed: TextCheck = crate::yaml::from_str(yaml).unwrap();
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
        let parsed: TextCheck = crate::yaml::from_str(yaml).unwrap();
        let expanded = parsed.expanded(|text| Ok::<_, ()>(format!("{text}{text}"))).unwrap();
        let yaml = "{ equal: aa, contains: [bb, cc], never: dd, ends_with: ee, matches: 'f{2}' }";
        assert_eq!(expanded, crate::yaml::from_str(yaml).unwrap());
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
            assert!(crate::yaml::from_str::<TextCheck>(yaml).is_err(), "{yaml}");
        }
    }
}
