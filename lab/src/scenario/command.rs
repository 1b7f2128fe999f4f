//! A command line, split into words as a shell splits it.

use super::{
    names::ProgramName,
    text::{FromText, from_text},
};
use std::fmt;

/// A program and its arguments, at least the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine(Vec<String>);

impl CommandLine {
    /// Reads what a scenario would have.
    ///
    /// # Errors
    /// What is no program and its arguments, and why.
    pub fn parse(text: &str) -> Result<CommandLine, String> {
        CommandLine::from_text(text)
    }

    /// The program's name, without a directory.
    pub fn program(&self) -> &str {
        self.0.first().map_or("", String::as_str)
    }

    /// What it is given.
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

/// Splits as a shell splits words: blanks, `'…'`, `"…"`, and `\` before one character. Nothing is
/// expanded.
fn split_words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\0' => return Err("NUL character in a command, expected text".to_owned()),
            '\\' => {
                let Some(next) = chars.next() else {
                    return Err("`\\` at the end of a command, expected a character behind it".to_owned());
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
