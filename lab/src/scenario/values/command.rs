//! A command line, split into words like a shell command.

use super::names::ProgramName;
use crate::scenario::read::scalar::{FromText, from_text};
use std::fmt;

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine(Vec<String>);

impl CommandLine {
    /// Parses a command line as a scenario writes it.
    ///
    /// # Errors
    /// Fails if it is not a program with arguments.
    pub fn parse(text: &str) -> Result<CommandLine, String> {
        CommandLine::from_text(text)
    }

    /// Returns the program's name, without a directory.
    pub fn program(&self) -> &str {
        self.0.first().map_or("", String::as_str)
    }

    /// Returns the arguments.
    pub fn arguments(&self) -> &[String] {
        self.0.get(1..).unwrap_or_default()
    }
}

impl FromText for CommandLine {
    const EXPECTED: &'static str = "a program and its arguments";

    fn from_text(text: &str) -> Result<CommandLine, String> {
        let words = split_words(text)?;
        let Some(program) = words.first() else {
            return Err("empty command, expected a program and its arguments".to_owned());
        };
        ProgramName::from_text(program)?;
        Ok(CommandLine(words))
    }
}

from_text!(CommandLine, { "type": "string", "minLength": 1, "examples": ["eventfd --sleep 0 1 2 4 7 14"] });

impl fmt::Display for CommandLine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0.join(" "))
    }
}

/// The arguments of a program; possibly none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words(pub(in crate::scenario) Vec<String>);

impl FromText for Words {
    const EXPECTED: &'static str = "arguments";

    fn from_text(text: &str) -> Result<Words, String> {
        split_words(text).map(Words)
    }
}

from_text!(Words, { "type": "string", "examples": ["--times 3 first"] });

/// Splits words like a shell: at spaces, with `'…'`, `"…"`, and `\` before one character. Performs no
/// expansion.
fn split_words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\0' => return Err("NUL character in a command, expected a string without it".to_owned()),
            '\\' => {
                let Some(next) = chars.next() else {
                    return Err("`\\` at the end of a command, expected a character after it".to_owned());
                };
                word.get_or_insert_default().push(next);
            }
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        None => return Err(format!("no closing {c} in a command, expected one")),
                        Some(end) if end == c => break,
                        Some('\\') if c == '"' => word.extend(chars.next()),
                        Some(inner) => word.push(inner),
                    }
                }
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}
