//! Fetch arguments of a probe: in the syntax of tracefs, or as a C path.

mod cursor;
pub(crate) mod path;
pub(crate) mod prototype;
mod raw;

pub use path::PathError;
pub use prototype::Prototype;

use crate::scenario::read::scalar::{FromText, from_text, printable_line};
pub(crate) use raw::fetch;
use raw::{check_path, is_raw};
use std::{fmt, ops::Deref};

/// A fetch argument of a probe: in the syntax of tracefs, `+0($arg2):ustring`, `$retval:s64`, `%x1`, or
/// a path that is resolved for each kernel, `file->f_inode->i_ino`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchArg(String);

/// `MAX_ARGSTR_LEN` of the kernel.
const RAW_MAX: usize = 63;

/// A path may be longer than the fetch argument that it resolves to.
const PATH_MAX: usize = 255;

impl FetchArg {
    /// As written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether it is a path instead of tracefs syntax.
    pub fn is_path(&self) -> bool {
        !is_raw(&self.0)
    }
}

impl Deref for FetchArg {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FetchArg {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl FromText for FetchArg {
    const EXPECTED: &'static str =
        "a fetch argument such as +0($arg2):ustring or $retval:s64, or a path such as file->f_inode->i_ino";

    fn from_text(text: &str) -> Result<FetchArg, String> {
        printable_line(text)?;
        let raw = is_raw(text);
        // Only an immediate string may contain spaces.
        if raw && text.contains(char::is_whitespace) && !text.starts_with("\\\"") {
            return Err(format!(
                "`{text}` is not a fetch argument, expected one such as +0($arg2):ustring, without spaces"
            ));
        }
        let max = if raw { RAW_MAX } else { PATH_MAX };
        if text.len() > max {
            return Err(format!("fetch argument of {} characters, expected at most {max}", text.len()));
        }
        if !raw {
            check_path(text)
                .map_err(|error| format!("neither a fetch argument nor a path: {}", error.shown(text)))?;
        }
        Ok(FetchArg(text.to_owned()))
    }
}

from_text!(FetchArg, {
    "type": "string",
    "minLength": 1,
    "maxLength": 255,
    "examples": [
        "$arg1",
        "+0($arg2):ustring",
        "$retval:s64",
        "file->f_inode->i_sb->s_type->name",
        "*(u64 __user *)buf",
        "dev->perm_addr:x8[6]",
    ],
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fetch_args_are_the_kernels_or_paths() {
        let check = |text: &str, path: bool| {
            let fetch = FetchArg::from_text(text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((fetch.as_str(), fetch.is_path()), (text, path));
        };
        for text in ["+0($arg2):ustring", "$retval:s64", "\\\"two words\"", "%x1", "$comm"] {
            check(text, false);
        }
        for text in ["count", "*(u64 *)buf", "file->f_inode->i_sb->s_type->name:string", "$retval->f_mode"] {
            check(text, true);
        }
        // A path that is too long for the kernel may resolve to a short fetch argument.
        check(&format!("{}->b", "long_name".repeat(10)), true);
    }

    #[test]
    fn what_is_neither_is_refused() {
        let check = |text: &str, expect: &str| {
            let error = FetchArg::from_text(text).expect_err(text);
            assert!(error.contains(expect), "{text}: {error}");
        };
        check("$arg1 x=$arg2", "without spaces");
        check("$arg1\nx", "control character");
        check(&format!("+0($arg1):{}", "x".repeat(60)), "at most 63");
        check(&"x".repeat(256), "at most 255");
        check("", "expected a parameter, not the end");
        check("file->", "expected a member's name, not the end\n  file->\n        ^");
        check("count x=%x0", "expected `->`, `.`, `[` or `:FORMAT`");
        check("count:u64 x=%x0", "bad format");
    }
}
