//! Places of uprobes in programs of the guest.

use crate::scenario::{
    read::scalar::{FromText, from_text},
    values::names::ProgramName,
};
use std::{collections::BTreeMap, fmt};

/// A symbol of a workload, `PROGRAM:SYMBOL` or `PROGRAM:SYMBOL+OFFSET`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UserPlace {
    /// One of `guest/workloads`.
    pub program: ProgramName,
    /// A function in its symbol table.
    pub symbol: String,
    /// Offset from the start of the function, in bytes.
    pub offset: u64,
    text: String,
}

/// Offsets of such places in the files of their programs, in bytes.
pub type UserPlaces = BTreeMap<UserPlace, u64>;

impl UserPlace {
    /// As written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromText for UserPlace {
    const EXPECTED: &'static str = "a workload's symbol, PROGRAM:SYMBOL or PROGRAM:SYMBOL+OFFSET";

    fn from_text(text: &str) -> Result<UserPlace, String> {
        let Some((program, symbol)) = text.split_once(':') else {
            return Err(format!("`{text}` does not name a program, expected {}", Self::EXPECTED));
        };
        let (symbol, offset) = symbol.split_once('+').map_or((symbol, None), |(a, b)| (a, Some(b)));
        let symbol_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
        let begins = |c: char| symbol_char(c) && !c.is_ascii_digit();
        if !symbol.starts_with(begins) || !symbol.chars().all(symbol_char) {
            return Err(format!("`{symbol}` in `{text}` is not a symbol, expected {}", Self::EXPECTED));
        }
        let number = |text: &str| match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        };
        let bad = || format!("bad offset in `{text}`, expected a number of bytes after the `+`");
        let offset = offset.map(|offset| number(offset).ok_or_else(bad)).transpose()?.unwrap_or(0);
        let program = ProgramName::from_text(program)?;
        Ok(UserPlace { program, symbol: symbol.to_owned(), offset, text: text.to_owned() })
    }
}

from_text!(UserPlace, {
    "type": "string",
    "pattern": "^[A-Za-z0-9_][A-Za-z0-9_-]*:[A-Za-z_.$][A-Za-z0-9_.$]*(\\+(0x)?[0-9A-Fa-f]+)?$",
    "examples": ["eventfd:write", "eventfd:main+0x10"],
});

impl fmt::Display for UserPlace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_workloads_symbol() {
        let place = UserPlace::from_text("eventfd:main+0x10").unwrap();
        assert_eq!((&*place.program, place.symbol.as_str(), place.offset), ("eventfd", "main", 16));
        assert_eq!(UserPlace::from_text("eventfd:main").unwrap().offset, 0);
        for (text, part) in [
            ("eventfd", "does not name a program"),
            ("eventfd:", "is not a symbol"),
            ("/bin/sh:main", "is not a program's name"),
            ("eventfd:main+", "bad offset"),
            ("eventfd:0x1000", "is not a symbol"),
        ] {
            let error = UserPlace::from_text(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
