//! Formats text for messages and terminals.

use std::fmt::Display;

/// Formats a string for a message: escaped, and at most `max` characters long.
pub(crate) fn excerpt(text: &str, max: usize) -> String {
    let mut shown: String = text.chars().take(max).flat_map(char::escape_debug).collect();
    let left = text.chars().count().saturating_sub(max);
    if left > 0 {
        shown.push_str(&format!("… ({left} more characters)"));
    }
    shown
}

/// Like [`excerpt`], but truncates a long string in the middle: the last lines of a log or program output are the
/// most informative.
pub(crate) fn both_ends(text: &str, max: usize) -> String {
    let left = text.chars().count().saturating_sub(max);
    if left == 0 {
        return excerpt(text, max);
    }
    let head: String = text.chars().take(max / 2).flat_map(char::escape_debug).collect();
    let tail: String = text.chars().skip(max / 2 + left).flat_map(char::escape_debug).collect();
    format!("{head}… ({left} more characters) …{tail}")
}

/// Replaces the control characters that a terminal would act on.
pub fn printable(lines: impl Display) -> String {
    lines
        .to_string()
        .chars()
        .map(|c| if c.is_control() && !matches!(c, '\t' | '\n') { '\u{fffd}' } else { c })
        .collect()
}
