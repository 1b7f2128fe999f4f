//! What one argument of a probe is: the kernel's own words, or a path as C would write it.

use super::text::{FromText, from_text, printable_line};
use crate::probe::{check_path, is_raw};
use std::{fmt, ops::Deref};

/// What a probe fetches for an argument: in tracefs' own language, `+0($arg2):ustring`,
/// `$retval:s64`, `%x1`, or a path that is resolved for each kernel, `file->f_inode->i_ino`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchArg(String);

/// `MAX_ARGSTR_LEN` of the kernel.
const RAW_MAX: usize = 63;

/// A path becomes something else, and may be longer.
const PATH_MAX: usize = 255;

impl FetchArg {
    /// As written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is a path, and not the kernel's own language.
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
        "a fetch arg such as +0($arg2):ustring or $retval:s64, or a path such as file->f_inode->i_ino";

    fn from_text(text: &str) -> Result<FetchArg, String> {
        printable_line(text)?;
        let raw = is_raw(text);
        // An immediate string may hold blanks, nothing else can.
        if raw && text.contains(char::is_whitespace) && !text.starts_with("\\\"") {
            return Err(format!(
                "`{text}` is not a fetch arg, expected one such as +0($arg2):ustring, without blanks"
            ));
        }
        let max = if raw { RAW_MAX } else { PATH_MAX };
        if text.len() > max {
            return Err(format!("fetch arg of {} characters, expected at most {max}", text.len()));
        }
        if !raw {
            check_path(text)
                .map_err(|error| format!("no fetch arg of the kernel, and no path: {}", error.shown(text)))?;
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
        // What the kernel could never take may be short once it is resolved.
        check(&format!("{}->b", "long_name".repeat(10)), true);
    }

    #[test]
    fn what_is_neither_is_refused() {
        let check = |text: &str, expect: &str| {
            let error = FetchArg::from_text(text).expect_err(text);
            assert!(error.contains(expect), "{text}: {error}");
        };
        check("$arg1 x=$arg2", "without blanks");
        check("$arg1\nx", "control character");
        check(&format!("+0($arg1):{}", "x".repeat(60)), "at most 63");
        check(&"x".repeat(256), "at most 255");
        check("", "expected a parameter, not the end");
        check("file->", "expected a member's name, not the end\n  file->\n        ^");
        check("count x=%x0", "expected `->`, `.`, `[` or `:FORMAT`");
        check("count:u64 x=%x0", "bad format");
    }
}
