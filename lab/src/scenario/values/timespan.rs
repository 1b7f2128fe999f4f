//! Durations in readable form: `5ms`, `30s`.

use crate::scenario::read::scalar::{FromText, from_text};
use std::{fmt, time::Duration};

/// A duration, written as a number with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timespan(pub Duration);

/// Units in nanoseconds. A unit that is the end of another one follows it.
const UNITS: [(&str, f64); 6] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("min", 6e10), ("s", 1e9)];

/// Longer than any scenario; prevents overflow in arithmetic on spans.
const MAX: Duration = Duration::from_secs(24 * 60 * 60);

impl FromText for Timespan {
    const EXPECTED: &'static str = "a duration such as 5ms or 30s";

    fn from_text(text: &str) -> Result<Timespan, String> {
        let bad =
            || format!("`{text}` is not a duration, expected a number and a unit, such as 5ms, 250us or 30s");
        let (number, scale) =
            UNITS.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale))).ok_or_else(bad)?;
        let number = number.trim_end();
        if number.is_empty() || number.chars().any(|c| !c.is_ascii_digit() && c != '.') {
            return Err(bad());
        }
        let nanoseconds = number.parse::<f64>().map_err(|_| bad())? * scale;
        if nanoseconds > MAX.as_nanos() as f64 {
            return Err(format!("`{text}` is too long, expected at most a day"));
        }
        // Not negative and at most a day, so it fits.
        Ok(Timespan(Duration::from_nanos(nanoseconds.round() as u64)))
    }
}

from_text!(Timespan, {
    "type": "string",
    "pattern": "^[0-9]+(\\.[0-9]+)? *(ns|us|µs|ms|s|min)$",
    "examples": ["5ms", "250us", "30s"],
});

impl fmt::Display for Timespan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_a_number_and_a_unit() {
        let check = |text, nanoseconds| {
            assert_eq!(Timespan::from_text(text), Ok(Timespan(Duration::from_nanos(nanoseconds))), "{text}");
        };
        check("5ms", 5_000_000);
        check("250us", 250_000);
        check("250µs", 250_000);
        check("1.5 s", 1_500_000_000);
        check("40ns", 40);
        check("2min", 120_000_000_000);
        check("0s", 0);
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "5", "ms", "-5ms", "5 hours", "1e3s", "infs", "nans", "1.2.3s", ". s"] {
            let error = Timespan::from_text(text).unwrap_err();
            assert!(error.contains("is not a duration"), "{text}: {error}");
        }
        assert!(Timespan::from_text("1441min").unwrap_err().contains("at most a day"));
    }
}
