//! Distinguishes paths from fetch arguments in the kernel's syntax, which are passed on unchanged.

use super::path::{Path, PathError};

/// Returns whether this is a fetch argument of Documentation/trace/kprobetrace.rst, such as a register, an
/// address or an offset. Anything else is a path.
pub(crate) fn is_raw(fetch: &str) -> bool {
    match fetch.as_bytes().first() {
        Some(b'+' | b'-' | b'@' | b'%' | b'\\') => true,
        // `$arg1`, `$stack0:u8[4]`, `$prev_comm:string`; but `$arg1->x` and `$arg1[2]` are paths.
        Some(b'$') => {
            let value = fetch.split(':').next().unwrap_or_default();
            !value.contains("->") && !value.contains(['.', '['])
        }
        _ => false,
    }
}

/// Checks the syntax of a path, independently of any kernel.
///
/// # Errors
/// It is not a path; the error has the position.
pub(crate) fn check_path(fetch: &str) -> Result<(), PathError> {
    Path::parse(fetch).map(|_| ())
}

/// Returns `+OFFSET(BASE)`, from user memory if `user` is set.
pub(crate) fn fetch(base: &str, offset: i64, user: bool) -> String {
    let sign = if offset < 0 { '-' } else { '+' };
    format!("{sign}{}{}({base})", if user { "u" } else { "" }, offset.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_reads_itself_is_left_alone() {
        let check = |text: &str, expect: bool| assert_eq!(is_raw(text), expect, "{text}");
        for raw in [
            "$arg1",
            "$arg2:u64",
            "+0($arg2):string",
            "+0(+8($arg2)):string",
            "-8(%x0)",
            "%x0",
            "@jiffies:u64",
            "@0xffff800080000000",
            "$comm",
            "$stack2",
            "$stack",
            "\\\"constant\"",
            "\\3",
            "$retval:s32",
            "$arg1:x8[4]",
            "$arg1:b4@0/32",
            "+u0($arg2):ustring",
            "$arg*",
            "$prev_comm:string",
        ] {
            check(raw, true);
        }
        for path in [
            "file",
            "$arg1->f_inode",
            "$arg1[2]",
            "*$arg1",
            "(u64)$arg1",
            "&file->f_path",
            "$retval->x:u8",
            "$arg1[0].x",
        ] {
            check(path, false);
        }
    }
}
