//! Errors in a scenario file: file, line, column, the line itself with a marker, the expected form, and
//! the nearest known name.

use crate::words::nearest;
use std::{
    fmt::Write,
    path::{Path, PathBuf},
};

/// An error in a scenario file. Its display form has several lines.
#[derive(Debug, thiserror::Error)]
#[error("{rendered}")]
pub struct ScenarioError {
    /// The path of the file, as given.
    pub path: PathBuf,
    /// Line and column, from 1, if known.
    pub place: Option<(usize, usize)>,
    /// The problem, on one line.
    pub message: String,
    rendered: String,
}

/// Keys of format 1 that have another name since format 2.
const RENAMED: [(&str, &str); 9] = [
    ("agrees", "matches_output"),
    ("alone", "exclusive"),
    ("dies", "expect_panic"),
    ("fed_by", "sources"),
    ("fresh", "boot"),
    ("leaves", "may_leave"),
    ("open", "allow_open"),
    ("refuses", "rejects"),
    ("without", "not_flags"),
];

/// Returns the present name of an unknown key, if it is one of format 1.
fn renamed(headline: &str, wrong: &str) -> Option<&'static str> {
    let (_, new) = RENAMED.iter().find(|(old, _)| *old == wrong)?;
    headline.contains("unknown ").then_some(*new)
}

/// Maximum number of characters of a line in the message.
const LINE_SHOWN: usize = 120;

impl ScenarioError {
    /// Reports a problem of the file as a whole.
    pub(in crate::scenario) fn of_file(path: &Path, message: impl Into<String>) -> ScenarioError {
        let message = message.into();
        let rendered = format!("{}: {message}", path.display());
        ScenarioError { path: path.to_owned(), place: None, message, rendered }
    }

    /// Reports a problem at a line and column of `source`, both from 1.
    pub(in crate::scenario) fn at(
        path: &Path,
        source: &str,
        place: (usize, usize),
        message: &str,
    ) -> ScenarioError {
        let (headline, expected) = match message.split_once(", expected ") {
            Some((headline, expected)) => (headline, Some(expected)),
            None => (message, None),
        };
        let (line, column) = place;
        let mut rendered = format!("{}:{line}:{column}: {}", path.display(), visible(headline));
        let wrong = quoted(headline).last();
        if let Some(text) = source.lines().nth(line - 1) {
            rendered.push_str(&marked(text, line, column, wrong));
        }
        if let Some(expected) = expected {
            let _ = write!(rendered, "\nexpected {}", visible(expected));
            let renamed = wrong.and_then(|wrong| renamed(headline, wrong));
            let near = wrong.and_then(|wrong| nearest(wrong, quoted(expected)));
            if let (Some(old), Some(new)) = (wrong, renamed) {
                let _ = write!(rendered, "\n`{old}` is called `{new}` since format 2");
            } else if let Some(near) = near.filter(|_| expected.starts_with("one of")) {
                let _ = write!(rendered, "\ndid you mean `{near}`?");
            }
        }
        ScenarioError { path: path.to_owned(), place: Some(place), message: visible(message), rendered }
    }

    /// Converts an error of the YAML parser, or of a type that it was reading.
    pub(in crate::scenario) fn from_yaml(
        path: &Path,
        source: &str,
        error: &crate::yaml::Error,
    ) -> ScenarioError {
        let message = error.to_string();
        match error.location() {
            Some(place) => {
                let (line, column) = (place.line(), place.column());
                let message = message.replacen(&format!(" at line {line} column {column}"), "", 1);
                ScenarioError::at(path, source, (line, column), &message)
            }
            // The parser's own limit, which it reports without a location.
            None if message == "repetition limit exceeded" => {
                ScenarioError::of_file(path, "aliases repeat too much")
            }
            None => ScenarioError::of_file(path, visible(&message)),
        }
    }
}

/// Returns the words in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Formats the line, its number, and a marker under the column.
fn marked(text: &str, line: usize, column: usize, wrong: Option<&str>) -> String {
    let before = column - 1;
    // Shows only part of a long line, so that the column is visible.
    let skip = if before > LINE_SHOWN - 20 { before - 40 } else { 0 };
    let shown: String = text.chars().skip(skip).take(LINE_SHOWN).collect();
    let rest: String = shown.chars().skip(before - skip).collect();
    let bare = rest.trim_start_matches(['"', '\'']);
    let length = match wrong {
        Some(wrong) if bare.starts_with(wrong) => wrong.chars().count() + (rest.len() - bare.len()),
        _ => 1,
    };
    let number = line.to_string();
    let margin = " ".repeat(number.len());
    format!(
        "\n {margin} |\n {number} | {}\n {margin} | {}{}",
        visible(&shown),
        " ".repeat(before - skip),
        "^".repeat(length.max(1))
    )
}

/// Replaces characters that a terminal would interpret, each by one column.
fn visible(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c == '\t' {
                ' '
            } else if c.is_control() {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect()
}
