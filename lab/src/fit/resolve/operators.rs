//! C's operators on a value: `*x`, `x[N]`, `&x`, `(T)x`, `x.name`, `x->name`.

use super::{Bits, Of, Resolution, Walk, Where};
use crate::{
    kernel::types::{Member, Shape, VOID},
    scenario::fetch::path::{PathError, Type},
};
use std::ops::Range;

impl Walk<'_> {
    pub(super) fn element(
        &self,
        of: Resolution,
        number: u64,
        at: &Range<usize>,
    ) -> Result<Resolution, PathError> {
        let behind = |id: Of| {
            let size = self.size(id, at)?;
            let offset = size.checked_mul(number).and_then(|bytes| i64::try_from(bytes).ok());
            offset.map_or_else(|| self.fails(at, format!("the offset of element {number} overflows")), Ok)
        };
        if of.id.pointers == 0
            && let (Shape::Array { of: id, count }, _) = self.shape(of.id, at)?
        {
            if number >= count as u64 && count > 0 {
                return self.fails(at, format!("the array has {count} elements"));
            }
            let Where::Memory { base, offset, user } = of.place else {
                return self.fails(at, "this array is not in memory");
            };
            let id = Of::plain(id);
            return Ok(Resolution { place: Where::Memory { base, offset: offset + behind(id)?, user }, id });
        }
        let Some((to, user)) = self.pointee(of.id, at)? else {
            return self.fails(at, format!("a `{}` is not a pointer", self.spelled(of.id)));
        };
        if to.pointers == 0 && self.shape(to, at)?.0 == Shape::Void {
            return self.fails(at, "`void *` points to no known type: cast it, as in `*(u64 *)buf`");
        }
        let offset = if number == 0 { 0 } else { behind(to)? };
        Ok(Resolution { place: Where::Memory { base: self.fetched(&of, at)?, offset, user }, id: to })
    }

    pub(super) fn address(&self, of: Resolution, at: &Range<usize>) -> Result<Resolution, PathError> {
        match of.place {
            // At offset 0 the address is the pointer itself.
            Where::Memory { base, offset: 0, .. } => {
                let id = Of { pointers: of.id.pointers + 1, ..of.id };
                Ok(Resolution { place: Where::Fetched(base), id })
            }
            Where::Memory { offset, .. } => self.fails(
                at,
                format!(
                    "the kernel's fetch arguments cannot add {offset} to a pointer without reading there"
                ),
            ),
            Where::Fetched(_) | Where::Bits(_) => self.fails(at, "this is not in memory"),
        }
    }

    pub(super) fn cast(&self, of: Resolution, to: &Type, at: &Range<usize>) -> Result<Resolution, PathError> {
        let id = match to.name.as_str() {
            "void" => VOID,
            name => self.told(at, self.types().named(to.kind, name))?,
        };
        let to = Of { id, pointers: to.pointers, user: to.user };
        let is_value = |shape: &Shape| matches!(shape, Shape::Number { .. } | Shape::Pointer { .. });
        let ((from, _), (shape, _)) = (self.shape(of.id, at)?, self.shape(to, at)?);
        // An array becomes the address of its first element.
        if let (Shape::Array { .. }, Where::Memory { .. }) = (&from, &of.place) {
            let of = self.address(of, at)?;
            return Ok(Resolution { id: to, ..of });
        }
        if !is_value(&from) || !is_value(&shape) {
            let (from, to) = (self.spelled(of.id), self.spelled(to));
            return self.fails(at, format!("cannot cast a `{from}` to `{to}`"));
        }
        // A cast to a different size changes the value, which only a fetch can do.
        let sizes = (self.size(of.id, at)?, self.size(to, at)?);
        match of.place {
            Where::Memory { .. } if sizes.0 < sizes.1 => {
                let (from, to) = (self.spelled(of.id), self.spelled(to));
                self.fails(at, format!("a `{from}` in memory is shorter than `{to}`"))
            }
            place => Ok(Resolution { place, id: to }),
        }
    }

    pub(super) fn member(
        &self,
        of: Resolution,
        name: &str,
        arrow: bool,
        at: &Range<usize>,
    ) -> Result<Resolution, PathError> {
        let (of, found) = match arrow {
            true => (self.element(of.clone(), 0, at), of),
            false => (Ok(of.clone()), of),
        };
        let spelled = self.spelled(found.id);
        let of = match of {
            Err(_) if self.shape(found.id, at)?.0 == Shape::Struct => {
                return self.fails(at, format!("`{spelled}` is not a pointer: use `.{name}`"));
            }
            other => other?,
        };
        match self.shape(of.id, at)?.0 {
            Shape::Struct => {}
            Shape::Pointer { .. } if !arrow => {
                return self.fails(at, format!("`{spelled}` is a pointer: use `->{name}`"));
            }
            Shape::Incomplete => {
                return self
                    .fails(at, format!("this kernel's BTF has no members of `{}`", self.spelled(of.id)));
            }
            _ => return self.fails(at, format!("`{spelled}` has no members")),
        }
        let Where::Memory { base, offset, user } = of.place else {
            return self.fails(at, "this struct is not in memory");
        };
        let Member { bit_offset, bits, id } = self.told(at, self.types().member(of.id.id, name))?;
        let place = match bits {
            Some(bits) => {
                let bit_offset = offset as u64 * 8 + bit_offset;
                Where::Bits(Bits { base, bit_offset, bits, user })
            }
            None => Where::Memory { base, offset: offset + (bit_offset / 8) as i64, user },
        };
        Ok(Resolution { place, id: Of::plain(id) })
    }
}
