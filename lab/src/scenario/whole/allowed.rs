//! `allow:`, the splats that do not fail a scenario.

use crate::scenario::{
    Pattern,
    read::scalar::{FromText, from_text},
};

/// One or more splats, selected by fingerprint or by title.
#[derive(Clone, Debug, PartialEq)]
pub enum Allowed {
    /// Twelve hexadecimal digits, as results show them.
    Fingerprint(String),
    /// A regular expression that matches somewhere in a splat's first line or its message.
    Title(Pattern),
}

/// Number of digits of a fingerprint.
const DIGITS: usize = 12;

impl Allowed {
    /// Returns whether this allows a splat with this fingerprint and these texts.
    pub fn matches(&self, fingerprint: &str, texts: &[&str]) -> bool {
        match self {
            Allowed::Fingerprint(allowed) => allowed == fingerprint,
            Allowed::Title(pattern) => texts.iter().any(|text| pattern.0.is_match(text)),
        }
    }
}

impl FromText for Allowed {
    const EXPECTED: &'static str = "a splat's fingerprint, or a regular expression for its title";

    fn from_text(text: &str) -> Result<Allowed, String> {
        let is_digit = |c: char| c.is_ascii_digit() || matches!(c, 'a'..='f');
        if text.len() == DIGITS && text.chars().all(is_digit) {
            return Ok(Allowed::Fingerprint(text.to_owned()));
        }
        let pattern = Pattern::from_text(text)?;
        if pattern.0.is_match("") {
            return Err(format!("`{text}` matches every splat, expected {}", Self::EXPECTED));
        }
        Ok(Allowed::Title(pattern))
    }
}

from_text!(Allowed, {
    "type": "string",
    "minLength": 1,
    "examples": ["3f9a0c12de45", "deaths_warn"],
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_splat_is_allowed_by_fingerprint_or_title() {
        let check = |allow: &str, expect| {
            let allowed = Allowed::from_text(allow).unwrap();
            assert_eq!(allowed.matches("3f9a0c12de45", &["WARNING: CPU: 0 PID: 3 at x.c:1", "why"]), expect);
        };
        check("3f9a0c12de45", true);
        check("3f9a0c12de46", false);
        check("^WARNING: .* at x.c", true);
        check("why", true);
        check("BUG", false);
    }

    #[test]
    fn what_would_allow_everything_is_refused() {
        for wrong in ["", ".*", "(", "x?"] {
            assert!(Allowed::from_text(wrong).is_err(), "{wrong}");
        }
    }
}
