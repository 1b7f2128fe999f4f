//! The format of what a path ends at: what is written behind it, or what its type says.

use super::{Found, Of, Walk, Where};
use crate::probe::{path::PathError, types::Shape};
use std::ops::Range;

/// The kernel takes so many elements of an array (MAX_ARRAY_LEN).
const ELEMENTS_MAX: usize = 64;

impl Walk<'_> {
    /// The fetch argument with its format: what is asked for, or what the type says.
    pub(super) fn formatted(
        &self,
        found: &Found,
        format: Option<&str>,
        at: &Range<usize>,
    ) -> Result<String, PathError> {
        if let Where::Bits { base, bit_offset, bits, user } = &found.place {
            return self.bits(base, *bit_offset, *bits, *user, format, at);
        }
        let (shape, _) = self.shape(found.id, at)?;
        let is_text = |format: &str| matches!(format, "string" | "ustring" | "symstr");
        let text = match (&shape, format) {
            (Shape::Pointer { .. }, Some(format)) if is_text(format) => Some(format.to_owned()),
            (Shape::Pointer { .. }, None) => self.text_format(found.id, at)?,
            _ => None,
        };
        // The kernel takes the place of a text, and the value of everything else.
        if let Some(format) = text {
            let user = format == "ustring";
            return Ok(format!("{}:{format}", fetch(&self.fetched(found, at)?, 0, user)));
        }
        let value = self.fetched(found, at)?;
        if let Some(format) = format {
            return Ok(format!("{value}:{format}"));
        }
        Ok(format!("{value}:{}", self.format_of(found, &shape, at)?))
    }

    /// How the text is fetched that a `char *` points to; `None` where it points to no text.
    fn text_format(&self, of: Of, at: &Range<usize>) -> Result<Option<String>, PathError> {
        let Some((to, user)) = self.pointee(of, at)? else { return Ok(None) };
        let is_text = matches!(self.shape(to, at)?.0, Shape::Number { character: true, .. });
        let plain = to.pointers == 0 && is_text && !self.spelled(to).contains("unsigned");
        Ok(plain.then(|| if user { "ustring" } else { "string" }.to_owned()))
    }

    /// The format that a type has where none is written.
    fn format_of(&self, found: &Found, shape: &Shape, at: &Range<usize>) -> Result<String, PathError> {
        let number = |shape: &Shape| match shape {
            Shape::Number { size: size @ (1 | 2 | 4 | 8), signed, .. } => {
                Some(format!("{}{}", if *signed { 's' } else { 'u' }, size * 8))
            }
            Shape::Pointer { .. } => Some("x64".to_owned()),
            _ => None,
        };
        if let Some(format) = number(shape) {
            return Ok(format);
        }
        let spelled = self.spelled(found.id);
        if let Shape::Array { of, count } = shape {
            let element = self.shape(Of::plain(*of), at)?.0;
            if matches!(element, Shape::Number { character: true, .. }) {
                return Ok("string".to_owned());
            }
            if let Some(format) = number(&element)
                && (1..=ELEMENTS_MAX).contains(count)
            {
                return Ok(format!("{format}[{count}]"));
            }
            return self
                .fails(at, format!("`{spelled}` has no format of its own: name an element, or write one"));
        }
        self.fails(at, format!("`{spelled}` is no value: name a member of it, or write a format"))
    }

    /// `+12(…):b3@5/32`: some bits of the smallest number that holds them.
    fn bits(
        &self,
        base: &str,
        bit_offset: u64,
        bits: u32,
        user: bool,
        format: Option<&str>,
        at: &Range<usize>,
    ) -> Result<String, PathError> {
        if let Some(format) = format {
            return self.fails(at, format!("a bitfield has a format of its own, and not `{format}`"));
        }
        let fits = |container: &u64| bit_offset % container + u64::from(bits) <= *container;
        let Some(container) = [8, 16, 32, 64].into_iter().find(fits) else {
            return self.fails(at, format!("{bits} bits from bit {bit_offset} on are in no one number"));
        };
        let offset = (bit_offset / container * container / 8) as i64;
        let within = bit_offset % container;
        Ok(format!("{}:b{bits}@{within}/{container}", fetch(base, offset, user)))
    }
}

/// `+OFFSET(BASE)`, from the user's memory where `user` is set.
pub(in crate::probe) fn fetch(base: &str, offset: i64, user: bool) -> String {
    let sign = if offset < 0 { '-' } else { '+' };
    format!("{sign}{}{}({base})", if user { "u" } else { "" }, offset.unsigned_abs())
}
