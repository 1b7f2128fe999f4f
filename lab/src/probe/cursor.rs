//! A place in a text that is read from left to right, blank by blank and word by word.

use super::PathError;

/// A text and how far it was read, in bytes.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text, at: 0 }
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t']).len();
    }

    /// Goes behind `token`, if it comes next.
    pub(super) fn takes(&mut self, token: &str) -> bool {
        self.blanks();
        let is_next = self.rest().starts_with(token);
        if is_next {
            self.at += token.len();
        }
        is_next
    }

    /// Goes behind a C identifier, if one comes next.
    pub(super) fn word(&mut self) -> Option<&'a str> {
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

    /// The error of what stands here instead of `what`.
    pub(super) fn expected(&self, what: &str) -> PathError {
        let found = self.rest().chars().next().map_or("the end".to_owned(), |c| format!("`{c}`"));
        PathError { message: format!("expected {what}, not {found}"), at: self.at..self.text.len() }
    }
}
