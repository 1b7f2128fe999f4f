//! Paths to values in a kernel's memory, in C syntax: `show_files[9].f_op->write`, `*p`, `&a.b`.
//!
//! A path is parsed here, and the code that reads the memory gets its parts: no string of a scenario is
//! ever evaluated as a program.

use crate::scenario::read::scalar::{FromText, from_text};
use serde::Serialize;
use std::fmt;

/// A parsed path. A member of the object that a pointer points to may be written with `.` or `->`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ValuePath {
    /// The leading `*` and `&`, as written; they bind less tightly than the accesses.
    unary: Vec<Unary>,
    /// The variable or function at which it begins.
    symbol: String,
    /// The accesses after the symbol, in order.
    accesses: Vec<Access>,
}

/// A leading operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Unary {
    Dereference,
    AddressOf,
}

/// A member or array access.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Access {
    Member(String),
    Index(u32),
}

/// Maximum length of a path, in characters.
const LENGTH_MAX: usize = 512;
/// Maximum length of an identifier: KSYM_NAME_LEN of the kernel, without the final NUL.
const IDENTIFIER_MAX: usize = 511;
/// Maximum number of leading operators.
const UNARY_MAX: usize = 4;

impl FromText for ValuePath {
    const EXPECTED: &'static str = "a path such as `show_files[9].f_op->write`, `*pointer` or `&variable`";

    fn from_text(text: &str) -> Result<ValuePath, String> {
        if text.len() > LENGTH_MAX {
            return Err(format!("a path of {} characters, expected at most {LENGTH_MAX}", text.len()));
        }
        let mut left = Left { whole: text, rest: text.trim() };
        let unary = left.unary()?;
        let symbol = left.identifier("a symbol")?;
        let mut accesses = Vec::new();
        while !left.rest.is_empty() {
            accesses.push(left.access()?);
        }
        Ok(ValuePath { unary, symbol, accesses })
    }
}

from_text!(ValuePath, {
    "type": "string",
    "minLength": 1,
    "maxLength": 512,
    "examples": ["show_files[9].f_op->write", "jiffies", "*my_pointer", "&init_task.comm"],
});

/// The unparsed rest of a path.
struct Left<'a> {
    whole: &'a str,
    rest: &'a str,
}

impl Left<'_> {
    fn take(&mut self, sign: &str) -> bool {
        let behind = self.rest.strip_prefix(sign);
        self.rest = behind.unwrap_or(self.rest).trim_start();
        behind.is_some()
    }

    fn expected(&self, what: &str) -> String {
        let found = match self.rest.chars().next() {
            Some(found) => format!("unexpected {found:?}"),
            None => "unexpected end".to_owned(),
        };
        let at = self.whole.len() - self.rest.len();
        format!("{found} at character {} of `{}`, expected {what}", at + 1, self.whole)
    }

    fn unary(&mut self) -> Result<Vec<Unary>, String> {
        let mut unary = Vec::new();
        loop {
            if self.take("*") {
                unary.push(Unary::Dereference);
            } else if self.take("&") {
                unary.push(Unary::AddressOf);
            } else {
                break;
            }
        }
        if unary.len() > UNARY_MAX {
            return Err(format!("{} leading operators, expected at most {UNARY_MAX}", unary.len()));
        }
        // As in C, an address has no address.
        if unary.windows(2).any(|pair| pair == [Unary::AddressOf; 2]) {
            return Err("leading `&&`: an address has no address".to_owned());
        }
        Ok(unary)
    }

    fn identifier(&mut self, what: &str) -> Result<String, String> {
        let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = self.rest.find(|c| !good(c)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(length);
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(self.expected(what));
        }
        if length > IDENTIFIER_MAX {
            return Err(format!("{what} of {length} characters, expected at most {IDENTIFIER_MAX}"));
        }
        self.rest = rest.trim_start();
        Ok(name.to_owned())
    }

    fn access(&mut self) -> Result<Access, String> {
        if self.take("->") || self.take(".") {
            return self.identifier("a member").map(Access::Member);
        }
        if !self.take("[") {
            return Err(self.expected("`.`, `->` or `[`"));
        }
        let length = self.rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(length);
        let index = match digits.strip_prefix("0x") {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => digits.parse(),
        };
        let index = index.map_err(|_| self.expected("an index below 4294967296"))?;
        self.rest = rest.trim_start();
        match self.take("]") {
            true => Ok(Access::Index(index)),
            false => Err(self.expected("`]`")),
        }
    }
}

/// Formats it in C syntax, with `.` for both `.` and `->`.
impl fmt::Display for ValuePath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for unary in &self.unary {
            out.write_str(if *unary == Unary::Dereference { "*" } else { "&" })?;
        }
        out.write_str(&self.symbol)?;
        for access in &self.accesses {
            match access {
                Access::Member(name) => write!(out, ".{name}")?,
                Access::Index(index) => write!(out, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_what_c_would_make_of_it() {
        let check = |text: &str, expect: &str| {
            let path = ValuePath::from_text(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(
                serde_json::to_value(&path).unwrap(),
                serde_json::from_str::<serde_json::Value>(expect).unwrap()
            );
        };
        check("jiffies", r#"{"unary": [], "symbol": "jiffies", "accesses": []}"#);
        check(
            "show_files[9].f_op->write",
            r#"{"unary": [], "symbol": "show_files",
                "accesses": [{"index": 9}, {"member": "f_op"}, {"member": "write"}]}"#,
        );
        check(
            " * & a [ 0x1F ] . b ",
            r#"{"unary": ["dereference", "address_of"], "symbol": "a", "accesses": [{"index": 31}, {"member": "b"}]}"#,
        );
        check(
            "__a1->_b[4294967295]",
            r#"{"unary": [], "symbol": "__a1",
            "accesses": [{"member": "_b"}, {"index": 4294967295}]}"#,
        );
    }

    #[test]
    fn it_is_shown_as_it_was_meant() {
        for (text, expect) in [("a->b[0x10]", "a.b[16]"), ("**p", "**p"), ("&x . y", "&x.y")] {
            assert_eq!(ValuePath::from_text(text).unwrap().to_string(), expect);
        }
    }

    #[test]
    fn what_is_no_path_is_refused_with_its_place() {
        let check = |text: &str, expect: &str| {
            let error = ValuePath::from_text(text).unwrap_err();
            assert!(error.contains(expect), "{text}: {error}");
        };
        check("", "unexpected end at character 1 of ``, expected a symbol");
        check("9a", "unexpected '9' at character 1 of `9a`, expected a symbol");
        check("a.", "unexpected end at character 3 of `a.`, expected a member");
        check("a.9", "at character 3 of `a.9`, expected a member");
        check("a[b]", "at character 3 of `a[b]`, expected an index below 4294967296");
        check("a[-1]", "expected an index below");
        check("a[4294967296]", "expected an index below");
        check("a[1", "unexpected end at character 4 of `a[1`, expected `]`");
        check("a b", "unexpected 'b' at character 3 of `a b`, expected `.`, `->` or `[`");
        check("a-b", "at character 2 of `a-b`, expected `.`, `->` or `[`");
        check("a+1", "`.`, `->` or `[`");
        check("__import__('os').system('x')", "unexpected '(' at character 11");
        check("a['b']", "expected an index below");
        check("a.b()", "`.`, `->` or `[`");
        check("(a)", "expected a symbol");
        check("é", "unexpected 'é' at character 1 of `é`, expected a symbol");
        check("*", "unexpected end at character 2 of `*`, expected a symbol");
        check("*****a", "5 leading operators");
        check("&&a", "leading `&&`");
        check(&"a.".repeat(300), "a path of 600 characters");
    }
}
