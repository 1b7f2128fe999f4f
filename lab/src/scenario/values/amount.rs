//! Bounds of a number: `5`, or `{ at_least: 1, at_most: 9 }`.

use crate::scenario::read::shapes::Shapes;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use std::{borrow::Cow, fmt};

/// Bounds of a number. A plain integer means exactly that many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// The lower bound.
    pub at_least: Option<u64>,
    /// The upper bound.
    pub at_most: Option<u64>,
}

impl Amount {
    /// Allows only `number`.
    pub fn exactly(number: u64) -> Amount {
        Amount { at_least: Some(number), at_most: Some(number) }
    }

    /// Combines the keys `is`, `at_least` and `at_most`. `is` takes precedence; the caller rejects
    /// contradictions.
    pub(crate) fn of(is: Option<u64>, at_least: Option<u64>, at_most: Option<u64>) -> Amount {
        match is {
            Some(number) => Amount::exactly(number),
            None => Amount { at_least, at_most },
        }
    }

    /// Returns whether `number` is within the bounds.
    pub fn allows(&self, number: u64) -> bool {
        !self.falls_short(number) && !self.exceeds(number)
    }

    /// Returns whether `number` is below the lower bound.
    pub fn falls_short(&self, number: u64) -> bool {
        self.at_least.is_some_and(|least| number < least)
    }

    /// Returns whether `number` is above the upper bound.
    pub fn exceeds(&self, number: u64) -> bool {
        self.at_most.is_some_and(|most| number > most)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.at_least, self.at_most) {
            (Some(least), Some(most)) if least == most => write!(out, "exactly {least}"),
            (Some(least), Some(most)) => write!(out, "at least {least} and at most {most}"),
            (Some(least), None) => write!(out, "at least {least}"),
            (None, Some(most)) => write!(out, "at most {most}"),
            (None, None) => out.write_str("any number"),
        }
    }
}

/// The map form of [`Amount`].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AmountMap")]
struct Map {
    /// Requires at least this many.
    #[serde(default)]
    at_least: Option<u64>,
    /// Requires at most this many.
    #[serde(default)]
    at_most: Option<u64>,
}

const EXPECTED: &str = "a number, or a map of at_least and at_most";

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Amount, D::Error> {
        let amount = Shapes::new(EXPECTED).number(|number| Ok(Amount::exactly(number)));
        let amount = amount.map(|Map { at_least, at_most }| match (at_least, at_most) {
            (None, None) => Err(format!("invalid length 0, expected {EXPECTED}")),
            (Some(least), Some(most)) if least > most => {
                Err(format!("at_least {least} is more than at_most {most}"))
            }
            (at_least, at_most) => Ok(Amount { at_least, at_most }),
        });
        amount.read(deserializer)
    }
}

impl JsonSchema for Amount {
    fn schema_name() -> Cow<'static, str> {
        "Amount".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A number, or bounds for it.",
            "oneOf": [{ "type": "integer", "minimum": 0 }, generator.subschema_for::<Map>()],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_bounds() {
        let check = |yaml: &str, shown: &str, allowed: &[u64], refused: &[u64]| {
            let amount: Amount = crate::yaml::from_str(yaml).unwrap();
            assert_eq!(amount.to_string(), shown);
            assert!(allowed.iter().all(|n| amount.allows(*n)), "{yaml}");
            assert!(!refused.iter().any(|n| amount.allows(*n)), "{yaml}");
        };
        check("5", "exactly 5", &[5], &[4, 6]);
        check("at_least: 2", "at least 2", &[2, u64::MAX], &[0, 1]);
        check("{ at_most: 0 }", "at most 0", &[0], &[1]);
        check("{ at_least: 1, at_most: 3 }", "at least 1 and at most 3", &[1, 3], &[0, 4]);
        for wrong in ["-1", "{}", "x", "{ at_least: 4, at_most: 3 }", "is: 3"] {
            assert!(crate::yaml::from_str::<Amount>(wrong).is_err(), "{wrong}");
        }
    }
}
