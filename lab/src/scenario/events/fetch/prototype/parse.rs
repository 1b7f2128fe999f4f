//! The text of a prototype → its function and parameters.

use super::{At, Behind, CType, PathError};
use crate::scenario::events::fetch::cursor::Cursor;

/// The maximum length of a function's name, which is also that of the event (MAX_EVENT_NAME_LEN).
const NAME_MAX: usize = 63;

/// One field of a prototype.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    /// The number of the function's parameter, from 1.
    pub(crate) number: u32,
    pub(crate) of: CType,
    pub(crate) behind: Vec<Behind>,
    pub(crate) at: At,
}

/// Parses the function and the parameters to fetch.
pub(crate) fn prototype(text: &str) -> Result<(String, Vec<Parameter>), PathError> {
    let mut parser = Cursor::new(text);
    let Some(function) = parser.word() else { return Err(parser.wanted("a function")) };
    if function.len() > NAME_MAX {
        let message = format!("a name of {} characters, expected at most {NAME_MAX}", function.len());
        return Err(PathError { message, at: 0..parser.at });
    }
    parser.takes_or("(", "`(`")?;
    let mut parameters = Vec::new();
    if !parser.takes(")") {
        let mut number = 1;
        loop {
            parameters.extend(parser.parameter(number)?);
            if parser.takes(",") {
                number += 1;
            } else if !parser.takes("|") {
                parser.takes_or(")", "`,`, `|` or `)`")?;
                break;
            }
        }
    }
    parser.blanks();
    match parser.rest() {
        "" => Ok((function.to_owned(), parameters)),
        _ => Err(parser.wanted("nothing more")),
    }
}

impl Cursor<'_> {
    fn takes_or(&mut self, token: &str, expected: &str) -> Result<(), PathError> {
        if self.takes(token) { Ok(()) } else { Err(self.wanted(expected)) }
    }

    /// Parses a decimal number, or a hexadecimal one after `0x`.
    fn number(&mut self) -> Result<u64, PathError> {
        self.blanks();
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let word = &rest[..end];
        let parsed = match word.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => word.parse(),
        };
        let Ok(number) = parsed else { return Err(self.wanted("a number")) };
        self.at += end;
        Ok(number)
    }

    fn index(&mut self) -> Result<Option<u64>, PathError> {
        if !self.takes("[") {
            return Ok(None);
        }
        let number = self.number()?;
        self.takes_or("]", "`]`")?;
        Ok(Some(number))
    }

    /// Like [`Cursor::expected`], but after skipping blanks.
    fn wanted(&mut self, what: &str) -> PathError {
        self.blanks();
        self.expected(what)
    }

    /// Parses one field; `None` for a parameter that is left out.
    fn parameter(&mut self, number: u32) -> Result<Option<Parameter>, PathError> {
        self.blanks();
        let start = self.at;
        let mut words = Vec::new();
        let (mut stars, mut named) = (0, false);
        loop {
            if self.takes("*") {
                (stars, named) = (stars + 1, false);
            } else if let Some(word) = self.word() {
                (named, _) = (true, words.push(word));
            } else {
                break;
            }
        }
        if words.is_empty() {
            return Err(self.wanted("a type"));
        }
        if words == ["NULL"] && stars == 0 {
            return Ok(None);
        }
        // `x8[6] mac` is an array of that type; `mac[6]` is the seventh element that `mac` points to.
        let mut ahead = *self;
        let count = ahead.index()?;
        let of_array = count.and_then(|count| Some((count, ahead.word()?)));
        let (name, count) = match of_array {
            Some((count, name)) => {
                *self = ahead;
                (Some(name), Some(count))
            }
            None => (words.pop().filter(|_| named), None),
        };
        let (Some(name), false) = (name, words.is_empty()) else {
            let message = "expected a type and a name".to_owned();
            return Err(PathError { message, at: start..self.at });
        };
        let of = CType::new(&words, stars, count, &(start..self.at))?;
        let mut behind = Vec::new();
        loop {
            if self.takes("+") {
                behind.push(Behind::Offset(self.number()?));
            } else if let Some(number) = self.index()? {
                behind.push(Behind::Index(number));
            } else {
                break;
            }
        }
        Ok(Some(Parameter { name: name.to_owned(), number, of, behind, at: start..self.at }))
    }
}
