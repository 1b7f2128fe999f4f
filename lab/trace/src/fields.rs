//! The `field:` lines of `header_page` and of every `format` file:
//!
//! ```text
//! field:char prev_comm[16];       offset:8;   size:16;  signed:0;
//! field:__data_loc char[] file;   offset:16;  size:4;   signed:1;
//! ```

/// One `field:` line, split into its parts but not interpreted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Declaration<'a> {
    /// The C type before the name, such as `__data_loc char[]` or `unsigned long`.
    pub(crate) type_name: &'a str,
    /// The field's name.
    pub(crate) name: &'a str,
    /// The text in the brackets after the name, if there are any: `16`, `TASK_COMM_LEN`, ``.
    pub(crate) array: Option<&'a str>,
    /// The width after `name:`, if the field is a bit-field.
    pub(crate) bits: Option<u32>,
    /// The offset from the start of the record, or of the page, in bytes.
    pub(crate) offset: usize,
    /// The size in bytes.
    pub(crate) size: usize,
    /// Whether the kernel declares it signed.
    pub(crate) signed: bool,
}

impl<'a> Declaration<'a> {
    /// Parses a line; `None` unless it is a complete `field:` line.
    pub(crate) fn parse(line: &'a str) -> Option<Declaration<'a>> {
        let mut parts = line.trim().strip_prefix("field")?.trim_start().strip_prefix(':')?.split(';');
        let declaration = parts.next()?.trim();
        let (mut offset, mut size, mut signed) = (None, None, false);
        for part in parts {
            match part.trim().split_once(':') {
                Some(("offset", number)) => offset = Some(number.trim().parse().ok()?),
                Some(("size", number)) => size = Some(number.trim().parse().ok()?),
                Some(("signed", number)) => signed = number.trim() != "0",
                _ => {}
            }
        }
        let (declaration, array) = match declaration.strip_suffix(']').and_then(|d| d.rsplit_once('[')) {
            Some((declaration, array)) => (declaration.trim_end(), Some(array.trim())),
            None => (declaration, None),
        };
        let (declaration, bits) = match declaration.rsplit_once(':') {
            Some((declaration, bits)) => (declaration.trim_end(), bits.trim().parse().ok()),
            None => (declaration, None),
        };
        let start = declaration
            .char_indices()
            .rev()
            .take_while(|&(_, c)| c.is_ascii_alphanumeric() || c == '_')
            .last()
            .map(|(at, _)| at)?;
        let (type_name, name) = declaration.split_at(start);
        Some(Declaration {
            type_name: type_name.trim(),
            name,
            array,
            bits,
            offset: offset?,
            size: size?,
            signed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_lines() {
        type Parts<'a> = (&'a str, &'a str, Option<&'a str>, usize, usize, bool);
        let check = |line: &str, expect: Option<Parts<'_>>| {
            let found =
                Declaration::parse(line).map(|d| (d.type_name, d.name, d.array, d.offset, d.size, d.signed));
            assert_eq!(found, expect, "{line}");
        };
        check(
            "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;",
            Some(("unsigned short", "common_type", None, 0, 2, false)),
        );
        check(
            "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;",
            Some(("local_t", "commit", None, 8, 8, true)),
        );
        check(
            "field:char prev_comm[TASK_COMM_LEN];\toffset:8;\tsize:16;\tsigned:0;",
            Some(("char", "prev_comm", Some("TASK_COMM_LEN"), 8, 16, false)),
        );
        check(
            "field:__data_loc char[][2] names;\toffset:42;\tsize:8;\tsigned:1;",
            Some(("__data_loc char[][2]", "names", None, 42, 8, true)),
        );
        check(
            "field:const char * name;\toffset:16;\tsize:8;\tsigned:0;",
            Some(("const char *", "name", None, 16, 8, false)),
        );
        check("field:int x; offset:-1; size:4; signed:1;", None);
        check("field:int x; size:4; signed:1;", None);
        check("print fmt: \"field:int\"", None);
        check("", None);
    }
}
