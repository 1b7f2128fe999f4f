//! Errors in a scenario file: file, line, column, the line itself with a marker, what was
//! expected, and the nearest known name.

use super::nearest::nearest;
use std::{
    fmt::Write,
    path::{Path, PathBuf},
};

/// A scenario file that cannot be used. Displays as several lines.
#[derive(Debug, thiserror::Error)]
#[error("{rendered}")]
pub struct ScenarioError {
    /// The file, as it was given.
    pub path: PathBuf,
    /// Line and column, from 1, where the problem has a place.
    pub place: Option<(usize, usize)>,
    /// What is wrong, on one line.
    pub message: String,
    rendered: String,
}

/// The most of a line that is shown, in characters.
const LINE_SHOWN: usize = 120;

impl ScenarioError {
    /// A problem of the file as a whole.
    pub(super) fn of_file(path: &Path, message: impl Into<String>) -> ScenarioError {
        let message = message.into();
        let rendered = format!("{}: {message}", path.display());
        ScenarioError { path: path.to_owned(), place: None, message, rendered }
    }

    /// A problem at a line and column of `source`, both from 1.
    pub(super) fn at(path: &Path, source: &str, place: (usize, usize), message: &str) -> ScenarioError {
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
            let near = wrong.and_then(|wrong| nearest(wrong, quoted(expected)));
            if let Some(near) = near.filter(|_| expected.starts_with("one of")) {
                let _ = write!(rendered, "\ndid you mean `{near}`?");
            }
        }
        ScenarioError { path: path.to_owned(), place: Some(place), message: visible(message), rendered }
    }

    /// What the YAML parser, or a type it was filling, had to say.
    pub(super) fn from_yaml(path: &Path, source: &str, error: &serde_yaml::Error) -> ScenarioError {
        let message = error.to_string();
        match error.location() {
            Some(place) => {
                let (line, column) = (place.line(), place.column());
                let message = message.replacen(&format!(" at line {line} column {column}"), "", 1);
                ScenarioError::at(path, source, (line, column), &message)
            }
            // The parser's own limit, which it names without a place.
            None if message == "repetition limit exceeded" => {
                ScenarioError::of_file(path, "aliases repeat too much")
            }
            None => ScenarioError::of_file(path, visible(&message)),
        }
    }
}

/// The words in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The line, its number, and a marker under the column.
fn marked(text: &str, line: usize, column: usize, wrong: Option<&str>) -> String {
    let before = column - 1;
    // A long line is cut so that the column stays in sight.
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

/// `text` without characters that a terminal would act on, each in one column.
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
