//! The format of the value at the end of a path: the one written there, or that of its type.

use super::{Bits, Of, Resolution, Walk, Where};
use crate::{
    kernel::types::Shape,
    scenario::fetch::{fetch, path::PathError},
};
use std::ops::Range;

/// The maximum number of elements of an array (MAX_ARRAY_LEN).
const ELEMENTS_MAX: usize = 64;

impl Walk<'_> {
    /// Returns the fetch argument with the given format, or with that of the type.
    pub(super) fn formatted(
        &self,
        found: &Resolution,
        format: Option<&str>,
        at: &Range<usize>,
    ) -> Result<String, PathError> {
        if let Where::Bits(bits) = &found.place {
            return match format {
                Some(format) => self.fails(at, format!("a bitfield has a fixed format, not `{format}`")),
                None => bits.formatted().or_else(|reason| self.fails(at, reason)),
            };
        }
        let (shape, _) = self.shape(found.id, at)?;
        let is_text = |format: &str| matches!(format, "string" | "ustring" | "symstr");
        let text = match (&shape, format) {
            (Shape::Pointer { .. }, Some(format)) if is_text(format) => Some(format.to_owned()),
            (Shape::Pointer { .. }, None) => self.text_format(found.id, at)?,
            _ => None,
        };
        // For a string the kernel needs its address, for anything else the value.
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

    /// Returns the format of the string that a `char *` points to; `None` for other pointers.
    fn text_format(&self, of: Of, at: &Range<usize>) -> Result<Option<String>, PathError> {
        let Some((to, user)) = self.pointee(of, at)? else { return Ok(None) };
        let is_text = matches!(self.shape(to, at)?.0, Shape::Number { character: true, .. });
        let plain = to.pointers == 0 && is_text && !self.spelled(to).contains("unsigned");
        Ok(plain.then(|| if user { "ustring" } else { "string" }.to_owned()))
    }

    /// Returns the default format of a type.
    fn format_of(&self, found: &Resolution, shape: &Shape, at: &Range<usize>) -> Result<String, PathError> {
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
            return self.fails(
                at,
                format!("`{spelled}` has no default format: select an element, or write a format"),
            );
        }
        self.fails(at, format!("`{spelled}` is not a value: select a member, or write a format"))
    }
}

impl Bits {
    /// Returns `+12(…):b3@5/32`: bits of the smallest number that contains them; an error if none does.
    fn formatted(&self) -> Result<String, String> {
        let Bits { base, bit_offset, bits, user } = self;
        let fits = |container: &u64| bit_offset % container + u64::from(*bits) <= *container;
        let Some(container) = [8, 16, 32, 64].into_iter().find(fits) else {
            return Err(format!("no aligned number contains {bits} bits from bit {bit_offset}"));
        };
        let offset = (bit_offset / container * container / 8) as i64;
        let within = bit_offset % container;
        Ok(format!("{}:b{bits}@{within}/{container}", fetch(base, offset, *user)))
    }
}
