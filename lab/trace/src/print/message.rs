//! The messages of `trace_printk` and of the trace marker.
//!
//! The kernel stores the arguments of a `trace_printk` in the format of `vbin_printf`
//! (lib/vsprintf.c), and its format string as an address, whose text is in `printk_formats`.

use super::{
    manner::Manner,
    render::{Conversion, Evaluated},
};
use crate::event::{Event, Value};
use std::borrow::Cow;

/// Returns the text of a `bprint` entry: the format at `format` filled with the packed `arguments`.
/// `None` if the format is not known or not supported by this parser.
pub(crate) fn bprint(event: &Event<'_>, format: u64, arguments: &[u8]) -> Option<String> {
    let mut out = filled(event, format, arguments, Manner::Report)?;
    out.truncate(out.trim_end_matches('\n').len());
    Some(out)
}

/// Returns the whole text of a `bprint` entry.
pub(crate) fn filled(event: &Event<'_>, format: u64, arguments: &[u8], manner: Manner) -> Option<String> {
    let mut packed = Packed { bytes: arguments, at: 0 };
    let mut rest = event.metadata().printk_format(format)?;
    let mut out = String::new();
    while let Some((literal, behind)) = rest.split_once('%') {
        out.push_str(literal);
        if let Some(behind) = behind.strip_prefix('%') {
            out.push('%');
            rest = behind;
            continue;
        }
        let (mut conversion, behind) = Conversion::parse(behind)?;
        conversion.take_stars(|| packed.number(4).map(|number| number as i32))?;
        rest = behind;
        let value = match (conversion.letter(), conversion.pointer()) {
            ('s', _) => Evaluated::Text(packed.string()?),
            ('c', _) => Evaluated::Number(i128::from(packed.number(1)?)),
            ('p', "" | "S" | "s" | "F" | "f" | "B" | "x" | "K") => {
                Evaluated::Number(i128::from(packed.number(8)?))
            }
            // Any other pointer was converted to text when it was written.
            ('p', _) => {
                out.push_str(&packed.string()?);
                continue;
            }
            _ => Evaluated::Number(i128::from(packed.number(conversion.bits() / 8)?)),
        };
        conversion.print(event, value, manner, &mut out)?;
    }
    out.push_str(rest);
    Some(out)
}

/// Returns the message of a `print` or `bputs` entry, without the newline at its end.
pub(crate) fn line(value: Value<'_>) -> Value<'_> {
    match value {
        Value::Text(Cow::Borrowed(text)) => Value::Text(Cow::Borrowed(text.trim_end_matches('\n'))),
        Value::Text(Cow::Owned(text)) => Value::Text(Cow::Owned(text.trim_end_matches('\n').to_owned())),
        other => other,
    }
}

/// Packed arguments, each aligned to its size, to at most four bytes.
struct Packed<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Packed<'a> {
    /// Reads a number of 1, 2, 4 or 8 bytes, without sign extension.
    fn number(&mut self, size: u32) -> Option<u64> {
        let size = size as usize;
        self.at = self.at.next_multiple_of(size.clamp(1, 4));
        let mut whole = [0; 8];
        whole.get_mut(..size)?.copy_from_slice(self.bytes.get(self.at..self.at + size)?);
        self.at += size;
        Some(u64::from_le_bytes(whole))
    }

    /// Reads a NUL-terminated string.
    fn string(&mut self) -> Option<Cow<'a, str>> {
        let rest = self.bytes.get(self.at..)?;
        let length = rest.iter().position(|&byte| byte == 0)?;
        self.at += length + 1;
        Some(String::from_utf8_lossy(rest.get(..length)?))
    }
}
