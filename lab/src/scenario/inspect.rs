//! `inspect:`, questions to the memory of a guest that waits meanwhile.

use super::{
    keyed::verb_keyed,
    locate::{At, Problem},
    names::{ArgName, Line},
    path::ValuePath,
    text::{FromText, from_text, printable_line},
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};
use std::{borrow::Cow, fmt};

/// Stops the guest, takes its memory, lets it go on, and reads in that memory with the symbols of the
/// kernel and of the modules that were loaded.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Inspect {
    /// The questions; all are about the same moment.
    #[schemars(length(min = 1))]
    pub inspect: Vec<InspectItem>,
}

verb_keyed! {
    /// One question. The first key of the YAML map says its kind.
    pub enum InspectItem is "question" {
        /// `value: show_files[9].f_op->write`
        "value" => InspectValue,
        /// `tasks: eventfd`
        "tasks" => InspectTasks,
    }
}

/// Asks for a value: `0x…` for a pointer or a function, decimal digits for an integer, a text for an
/// array of characters.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InspectValue {
    /// Where it is: a variable, then `.member`, `->member` and `[index]`; `*` or `&` in front.
    pub value: ValuePath,
    /// The function or variable that it must point at.
    #[serde(default)]
    pub symbol: Option<SymbolName>,
    /// What it must be; `${name}` is a value that was captured before.
    #[serde(default)]
    pub is: Option<WantedValue>,
    /// Later steps use it as `${name}`.
    #[serde(default)]
    pub capture: Option<ArgName>,
}

/// Asks how many tasks have a name, threads included.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InspectTasks {
    /// Their name, as `comm` has it.
    pub tasks: Line,
    /// How many there must be.
    #[serde(default)]
    pub is: Option<WantedValue>,
    /// Later steps use it as `${name}`.
    #[serde(default)]
    pub capture: Option<ArgName>,
}

impl Inspect {
    /// What only the whole can tell: whether there is something to ask, and anything made of the answers.
    pub(super) fn check(&self, path: &[At]) -> Result<(), Problem> {
        let problem = |at: Option<At>, message: &str| {
            let path = path.iter().cloned().chain([At::Key("inspect")]).chain(at).collect();
            Err(Problem { path, message: message.to_owned() })
        };
        if self.inspect.is_empty() {
            return problem(None, "no questions, expected at least one");
        }
        let asks = |item: &InspectItem| match item {
            InspectItem::InspectValue(item) => {
                item.symbol.is_some() || item.is.is_some() || item.capture.is_some()
            }
            InspectItem::InspectTasks(item) => item.is.is_some() || item.capture.is_some(),
        };
        match self.inspect.iter().position(|item| !asks(item)) {
            Some(index) => {
                let message = "nothing is made of the answer, expected `symbol`, `is` or `capture` beside it";
                problem(Some(At::Index(index)), message)
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
        // The compiler's clones have dots: `f.isra.0`.
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
        if text.is_empty() || !text.chars().all(good) || text.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(format!("`{}` is no symbol, expected {}", text.escape_debug(), Self::EXPECTED));
        }
        Ok(SymbolName(text.to_owned()))
    }
}

from_text!(SymbolName, { "type": "string", "pattern": "^[A-Za-z_.$][A-Za-z0-9_.$]*$" });

/// What a value must be: an integer, or a text, which may have `${name}` in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedValue(String);

impl WantedValue {
    /// As written, a number in decimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `found` is what `wanted`, with its captured values in place, says: the same text, or the
    /// same number, decimal or hexadecimal.
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

impl<'de> Deserialize<'de> for WantedValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WantedValue, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = WantedValue;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an integer, or a text such as \"${name}\"")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<WantedValue, E> {
                Ok(WantedValue(number.to_string()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<WantedValue, E> {
                Ok(WantedValue(number.to_string()))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<WantedValue, E> {
                printable_line(text).map_err(E::custom)?;
                Ok(WantedValue(text.to_owned()))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for WantedValue {
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
        let step: Inspect = serde_yaml::from_str(yaml).unwrap();
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
            let error = serde_yaml::from_str::<Inspect>(yaml).unwrap_err().to_string();
            assert!(error.contains(expect), "{yaml}: {error}");
        };
        check("inspect: [ { value: 'a b' } ]", "`.`, `->` or `[` is expected");
        check("inspect: [ { value: a, symbol: 'f+0x1' } ]", "`f+0x1` is no symbol");
        check("inspect: [ { value: a, symbol: 9 } ]", "the name of a function or variable");
        check("inspect: [ { value: a, capture: 'x-y' } ]", "bad character '-'");
        check("inspect: [ { value: a, is: [1] } ]", "an integer, or a text");
        check("inspect: [ { valu: a } ]", "unknown kind of question as the first key `valu`");
    }

    #[test]
    fn numbers_are_compared_as_numbers() {
        let check = |wanted, found, expect| {
            assert_eq!(WantedValue::is_met(wanted, found), expect, "{wanted} {found}");
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
