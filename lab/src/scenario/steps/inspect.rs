//! `inspect:`, queries of the guest's memory.

use super::value_path::ValuePath;
use crate::scenario::{
    read::{
        keyed::verb_keyed,
        locate::{PathSegment, Problem},
        scalar::{FromText, from_text, printable_line},
        shapes::Shapes,
    },
    values::names::{ArgName, Line},
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;

/// Stops the guest, saves its memory, resumes it, and evaluates queries in that memory, with the
/// symbols of the kernel and of the loaded modules.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Inspect {
    /// The queries; all see the memory at the same moment.
    #[schemars(length(min = 1))]
    pub inspect: Vec<InspectItem>,
}

verb_keyed! {
    /// One query. The first key of the YAML map selects its kind.
    pub enum InspectItem is "query" {
        /// `value: show_files[9].f_op->write`
        "value" => InspectValue,
        /// `tasks: eventfd`
        "tasks" => InspectTasks,
    }
}

/// Reads a value: `0x…` for a pointer or a function, decimal digits for an integer, a string for an
/// array of characters.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InspectValue {
    /// The value to read: a variable, followed by `.member`, `->member` and `[index]`, preceded by `*`
    /// or `&`.
    pub value: ValuePath,
    /// The function or variable that the value must point to.
    #[serde(default)]
    pub symbol: Option<SymbolName>,
    /// The expected value; `${name}` stands for a value captured before.
    #[serde(default)]
    pub is: Option<ExpectedValue>,
    /// Captures the value for later steps, which use it as `${name}`.
    #[serde(default)]
    pub capture: Option<ArgName>,
}

/// Counts the tasks of a name, threads included.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InspectTasks {
    /// The name, as in `comm`.
    pub tasks: Line,
    /// The expected number.
    #[serde(default)]
    pub is: Option<ExpectedValue>,
    /// Captures the number for later steps, which use it as `${name}`.
    #[serde(default)]
    pub capture: Option<ArgName>,
}

impl Inspect {
    /// Checks that there are queries and that each of them is used.
    pub(in crate::scenario) fn check(&self, path: &[PathSegment]) -> Result<(), Problem> {
        let problem = |at: Option<PathSegment>, message: &str| {
            let path = path.iter().cloned().chain([PathSegment::Key("inspect")]).chain(at).collect();
            Err(Problem { path, message: message.to_owned() })
        };
        if self.inspect.is_empty() {
            return problem(None, "no queries, expected at least one");
        }
        let asks = |item: &InspectItem| match item {
            InspectItem::InspectValue(item) => {
                item.symbol.is_some() || item.is.is_some() || item.capture.is_some()
            }
            InspectItem::InspectTasks(item) => item.is.is_some() || item.capture.is_some(),
        };
        match self.inspect.iter().position(|item| !asks(item)) {
            Some(index) => {
                let message = "unused result, expected `symbol`, `is` or `capture` as well";
                problem(Some(PathSegment::Index(index)), message)
            }
            None => Ok(()),
        }
    }
}

/// The name of a function or variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolName(String);

impl SymbolName {
    /// As written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromText for SymbolName {
    const EXPECTED: &'static str = "the name of a function or variable";

    fn from_text(text: &str) -> Result<SymbolName, String> {
        // Names of compiler clones contain dots: `f.isra.0`.
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
        if text.is_empty() || !text.chars().all(good) || text.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(format!("`{}` is not a symbol, expected {}", text.escape_debug(), Self::EXPECTED));
        }
        Ok(SymbolName(text.to_owned()))
    }
}

from_text!(SymbolName, { "type": "string", "pattern": "^[A-Za-z_.$][A-Za-z0-9_.$]*$" });

/// An expected value: an integer or a string, which may contain `${name}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedValue(String);

impl ExpectedValue {
    /// As written; a number in decimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether `found` equals `wanted`, whose captured values are already substituted: as a
    /// string, or as a number, decimal or hexadecimal.
    pub fn is_met(wanted: &str, found: &str) -> bool {
        wanted == found || matches!((number(wanted), number(found)), (Some(one), Some(two)) if one == two)
    }
}

fn number(text: &str) -> Option<i128> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok().map(i128::from),
        None => text.parse().ok(),
    }
}

impl<'de> Deserialize<'de> for ExpectedValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ExpectedValue, D::Error> {
        Shapes::new("an integer, or a string such as \"${name}\"")
            .integer(|number| Ok(ExpectedValue(number.to_string())))
            .text(|text| printable_line(text).map(|()| ExpectedValue(text.to_owned())))
            .read(deserializer)
    }
}

impl JsonSchema for ExpectedValue {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "WantedValue".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["integer", "string"], "examples": [5, "${file}"] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_read() {
        let yaml = "inspect:\n  - value: a[1].b\n    symbol: f.isra.0\n  - value: n\n    is: 0x10\n    \
                    capture: n\n  - tasks: eventfd\n    is: \"${n}\"\n";
        let step: Inspect = crate::yaml::from_str(yaml).unwrap();
        let [
            InspectItem::InspectValue(first),
            InspectItem::InspectValue(second),
            InspectItem::InspectTasks(third),
        ] = &step.inspect[..]
        else {
            panic!("{step:?}");
        };
        assert_eq!(
            (first.value.to_string().as_str(), first.symbol.as_ref().unwrap().as_str()),
            ("a[1].b", "f.isra.0")
        );
        assert_eq!((second.is.as_ref().unwrap().as_str(), &*second.capture.clone().unwrap()), ("16", "n"));
        assert_eq!((&*third.tasks, third.is.as_ref().unwrap().as_str()), ("eventfd", "${n}"));
    }

    #[test]
    fn what_is_no_question_is_refused() {
        let check = |yaml: &str, expect: &str| {
            let error = crate::yaml::from_str::<Inspect>(yaml).unwrap_err().to_string();
            assert!(error.contains(expect), "{yaml}: {error}");
        };
        check("inspect: [ { value: 'a b' } ]", "expected `.`, `->` or `[`");
        check("inspect: [ { value: a, symbol: 'f+0x1' } ]", "`f+0x1` is not a symbol");
        check("inspect: [ { value: a, symbol: 9 } ]", "the name of a function or variable");
        check("inspect: [ { value: a, capture: 'x-y' } ]", "bad character '-'");
        check("inspect: [ { value: a, is: [1] } ]", "an integer, or a string");
        check("inspect: [ { valu: a } ]", "unknown kind of query as the first key `valu`");
    }

    #[test]
    fn numbers_are_compared_as_numbers() {
        let check = |wanted, found, expect| {
            assert_eq!(ExpectedValue::is_met(wanted, found), expect, "{wanted} {found}");
        };
        check("16", "0x10", true);
        check("0x10", "0x10", true);
        check("-1", "-1", true);
        check("16", "17", false);
        check("eventfd", "eventfd", true);
        check("eventfd", "event", false);
        check("0xffffffffffffffff", "18446744073709551615", true);
    }
}
