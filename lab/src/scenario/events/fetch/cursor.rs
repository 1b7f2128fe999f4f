//! A cursor over a text that is parsed from left to right.

use crate::scenario::PathError;

/// A text and the current position in it, in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    pub(crate) text: &'a str,
    pub(crate) at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text, at: 0 }
    }

    pub(crate) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(crate) fn blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t']).len();
    }

    /// Skips `token`, if it comes next.
    pub(crate) fn takes(&mut self, token: &str) -> bool {
        self.blanks();
        let is_next = self.rest().starts_with(token);
        if is_next {
            self.at += token.len();
        }
        is_next
    }

    /// Skips and returns a C identifier, if one comes next.
    pub(crate) fn word(&mut self) -> Option<&'a str> {
        self.blanks();
        let rest = self.rest();
        let end = rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let word = &rest[..end];
        let is_name = word.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic());
        is_name.then(|| {
            self.at += end;
            word
        })
    }

    /// Returns the error for finding something else than `what` here.
    pub(crate) fn expected(&self, what: &str) -> PathError {
        let found = self.rest().chars().next().map_or("the end".to_owned(), |c| format!("`{c}`"));
        PathError { message: format!("expected {what}, not {found}"), at: self.at..self.text.len() }
    }
}
