//! `file->f_inode->i_sb->s_type->name:string` → [`Path`]: a C expression, restricted to what a probe can
//! fetch, and a format.
//!
//! ```text
//! path    = value [":" format]
//! value   = "*" value | "&" value | "(" type ")" value | postfix
//! postfix = ( NAME | "$arg" N | "$retval" | "(" value ")" ) ( "->" NAME | "." NAME | "[" N "]" )*
//! type    = { "const" | "volatile" } ( "struct" NAME | "union" NAME | "enum" NAME | NAME… ) { "*" | "__user" }
//! ```

use super::cursor::Cursor;
use crate::kernel::types::Named;
use std::ops::Range;

/// The maximum number of operators in a path. Each pointer is a fetch, of which the kernel allows fewer.
const DEPTH_MAX: usize = 32;

/// A path, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) value: Value,
    /// The text after the colon, which the kernel checks.
    pub(crate) format: Option<String>,
}

/// A value, and its position in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) is: ValueKind,
    pub(crate) at: Range<usize>,
}

/// The kinds of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// A parameter.
    Parameter(String),
    /// `$argN`, from 1.
    Argument(u32),
    /// `$retval`
    Returned,
    /// `*x`
    Pointee(Box<Value>),
    /// `&x`
    Address(Box<Value>),
    /// `(T)x`
    Cast(Type, Box<Value>),
    /// `x->name`, or `x.name` if `arrow` is not set.
    Member { of: Box<Value>, name: String, arrow: bool },
    /// `x[number]`
    Element { of: Box<Value>, number: u64 },
}

/// The type of a cast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) kind: Named,
    /// Its name in BTF.
    pub(crate) name: String,
    /// The number of stars.
    pub(crate) pointers: u32,
    /// Whether the last star points to user memory.
    pub(crate) user: bool,
}

/// The reason why a path cannot be followed, and the position in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PathError {
    /// The error.
    pub message: String,
    /// The bytes of the path that it is about.
    pub at: Range<usize>,
}

impl PathError {
    /// Returns the error and the path with a caret below its position, as in the kernel's `error_log`.
    pub fn shown(&self, path: &str) -> String {
        let blanks = path.get(..self.at.start).map_or(0, |before| before.chars().count());
        format!("{}\n  {path}\n  {}^", self.message, " ".repeat(blanks))
    }
}

/// The names of C's numbers, with the words in any order, and their names in BTF.
const NUMBERS: [(&[&str], &str); 10] = [
    (&["char"], "char"),
    (&["signed", "char"], "signed char"),
    (&["unsigned", "char"], "unsigned char"),
    (&["short"], "short int"),
    (&["unsigned", "short"], "short unsigned int"),
    (&["unsigned"], "unsigned int"),
    (&["long"], "long int"),
    (&["unsigned", "long"], "long unsigned int"),
    (&["long", "long"], "long long int"),
    (&["unsigned", "long", "long"], "long long unsigned int"),
];

/// The words in the names of C's numbers.
const NUMBER_WORDS: [&str; 6] = ["char", "short", "int", "long", "signed", "unsigned"];

impl Path {
    /// Parses a path.
    ///
    /// # Errors
    /// It is not a path; the error has the position.
    pub(crate) fn parse(text: &str) -> Result<Path, PathError> {
        let mut parser = Parser { cursor: Cursor::new(text), depth: 0 };
        let value = parser.value()?;
        parser.cursor.blanks();
        let format = match parser.cursor.rest() {
            "" => None,
            rest if rest.starts_with(':') && rest.len() > 1 => Some(format(&rest[1..], parser.cursor.at)?),
            _ => return Err(parser.cursor.expected("`->`, `.`, `[` or `:FORMAT`")),
        };
        Ok(Path { value, format })
    }
}

/// Parses a format such as `x8[6]`, `b4@0/32` or `string`, which the kernel reads up to the next blank.
fn format(text: &str, colon: usize) -> Result<String, PathError> {
    let format = text.trim();
    let good = |c: char| c.is_ascii_alphanumeric() || "[]@/_".contains(c);
    match format.is_empty() || !format.chars().all(good) {
        true => Err(PathError {
            message: format!("bad format `{format}`, expected one such as u64, x8[6] or string"),
            at: colon + 1..colon + 1 + text.len(),
        }),
        false => Ok(format.to_owned()),
    }
}

struct Parser<'a> {
    cursor: Cursor<'a>,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn number(&mut self) -> Option<u64> {
        self.cursor.blanks();
        let rest = self.cursor.rest();
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number = rest[..end].parse().ok()?;
        self.cursor.at += end;
        Some(number)
    }

    fn deeper(&mut self) -> Result<(), PathError> {
        self.depth += 1;
        match self.depth > DEPTH_MAX {
            true => Err(PathError {
                message: format!("more than {DEPTH_MAX} operators"),
                at: self.cursor.at..self.cursor.text.len(),
            }),
            false => Ok(()),
        }
    }

    fn value(&mut self) -> Result<Value, PathError> {
        self.deeper()?;
        self.cursor.blanks();
        let start = self.cursor.at;
        let is = if self.cursor.takes("*") {
            ValueKind::Pointee(Box::new(self.value()?))
        } else if self.cursor.rest().starts_with('&') {
            self.cursor.at += 1;
            ValueKind::Address(Box::new(self.value()?))
        } else if let Some(of) = self.cast()? {
            ValueKind::Cast(of, Box::new(self.value()?))
        } else {
            return self.postfix();
        };
        Ok(Value { is, at: start..self.cursor.at })
    }

    /// Parses `(T)`; `None` if the parentheses contain a value.
    fn cast(&mut self) -> Result<Option<Type>, PathError> {
        let start = self.cursor.at;
        if !self.cursor.takes("(") {
            return Ok(None);
        }
        let found = self.type_name()?;
        // `(x)->y` and `(x)` are values; `(x)y` and `(x *)y` are casts.
        let is_cast = found.as_ref().is_some_and(|found| {
            let mut behind = self.cursor;
            let closed = behind.takes(")");
            behind.blanks();
            let begins = |c: char| c == '_' || c.is_ascii_alphabetic() || "*&($".contains(c);
            closed && (found.pointers > 0 || behind.rest().starts_with(begins))
        });
        match (found, is_cast) {
            (Some(found), true) => {
                self.cursor.takes(")");
                Ok(Some(found))
            }
            _ => {
                self.cursor.at = start;
                Ok(None)
            }
        }
    }

    fn type_name(&mut self) -> Result<Option<Type>, PathError> {
        let start = self.cursor.at;
        let mut words = Vec::new();
        let mut user = false;
        while let Some(word) = self.cursor.word() {
            match word {
                "const" | "volatile" => {}
                "__user" => user = true,
                word => words.push(word),
            }
        }
        let (kind, name) = match words[..] {
            [] => return Ok(None),
            ["struct", name] => (Named::Struct, name.to_owned()),
            ["union", name] => (Named::Union, name.to_owned()),
            ["enum", name] => (Named::Enum, name.to_owned()),
            _ if words.iter().all(|word| NUMBER_WORDS.contains(word)) => {
                let Some(name) = number_type(&words) else {
                    let message = format!("`{}` is not a type", words.join(" "));
                    return Err(PathError { message, at: start..self.cursor.at });
                };
                (Named::Plain, name.to_owned())
            }
            [name] => (Named::Plain, name.to_owned()),
            _ => return Ok(None),
        };
        let mut pointers = 0;
        loop {
            if self.cursor.takes("*") {
                pointers += 1;
            } else if self.cursor.rest().starts_with("__user") {
                self.cursor.at += "__user".len();
                user = true;
            } else if self.cursor.rest().starts_with("const") {
                self.cursor.at += "const".len();
            } else {
                break;
            }
            self.deeper()?;
        }
        Ok(Some(Type { kind, name, pointers, user }))
    }

    fn postfix(&mut self) -> Result<Value, PathError> {
        let start = self.cursor.at;
        let mut value = self.primary()?;
        loop {
            let arrow = self.cursor.takes("->");
            let is = if arrow || self.cursor.takes(".") {
                let Some(name) = self.cursor.word() else {
                    return Err(self.cursor.expected("a member's name"));
                };
                ValueKind::Member { of: Box::new(value), name: name.to_owned(), arrow }
            } else if self.cursor.takes("[") {
                let Some(number) = self.number() else { return Err(self.cursor.expected("a number")) };
                if !self.cursor.takes("]") {
                    return Err(self.cursor.expected("`]`"));
                }
                ValueKind::Element { of: Box::new(value), number }
            } else {
                return Ok(value);
            };
            self.deeper()?;
            value = Value { is, at: start..self.cursor.at };
        }
    }

    fn primary(&mut self) -> Result<Value, PathError> {
        let start = self.cursor.at;
        if self.cursor.takes("(") {
            let value = self.value()?;
            return match self.cursor.takes(")") {
                true => Ok(value),
                false => Err(self.cursor.expected("`)`")),
            };
        }
        let is = if self.cursor.takes("$") {
            match self.cursor.word() {
                Some("retval") => ValueKind::Returned,
                Some(word) => match word.strip_prefix("arg").and_then(|number| number.parse().ok()) {
                    Some(number @ 1..) => ValueKind::Argument(number),
                    _ => {
                        let message = format!("`${word}` has no type, expected $argN or $retval");
                        return Err(PathError { message, at: start..self.cursor.at });
                    }
                },
                None => return Err(self.cursor.expected("argN or retval")),
            }
        } else {
            match self.cursor.word() {
                Some(word) => ValueKind::Parameter(word.to_owned()),
                None => return Err(self.cursor.expected("a parameter")),
            }
        };
        Ok(Value { is, at: start..self.cursor.at })
    }
}

/// Returns the name in BTF of the number with these words.
fn number_type(words: &[&str]) -> Option<&'static str> {
    let sorted = |words: &[&str]| {
        let mut words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        words.sort();
        words
    };
    let is_char = words.contains(&"char");
    // `int` is redundant, and so is `signed`, except for a char.
    let said = |word: &&&str| **word != "int" && (is_char || **word != "signed");
    let said: Vec<&str> = words.iter().filter(said).copied().collect();
    if said.is_empty() {
        return Some("int");
    }
    let known = NUMBERS.iter().find(|(known, _)| sorted(known) == sorted(&said));
    known.map(|(_, name)| *name)
}

#[cfg(test)]
#[path = "path_tests.rs"]
mod tests;
