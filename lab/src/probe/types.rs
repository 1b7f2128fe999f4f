//! The types of a kernel and the prototypes of its functions, as BTF has them.
//!
//! BTF comes out of a build that read whatever source it was given: chains and nesting are followed only
//! so far, and whatever is not there is an error, never a panic.

mod image;

use crate::scenario::nearest;
use anyhow::{Context, Result, bail};
use btf_rs::{Btf, BtfType, Type};
use std::{fmt, path::Path};

/// The type of nothing; `void *` points to it.
pub(super) const VOID: TypeId = 0;

/// How many names, qualifiers or anonymous members may stand in a row.
const DEPTH_MAX: usize = 32;

/// How BTF numbers types.
pub(super) type TypeId = u32;

/// The types of a kernel.
pub struct Types {
    btf: Btf,
}

impl fmt::Debug for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Types").finish_non_exhaustive()
    }
}

/// What a type is, behind its names and qualifiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Void,
    /// Also an enum or a bool. Its size is in bytes.
    Number {
        size: usize,
        signed: bool,
        character: bool,
    },
    Pointer {
        to: TypeId,
    },
    Array {
        of: TypeId,
        count: usize,
    },
    /// Also a union.
    Struct,
    Function,
    /// A struct of which this kernel's BTF has the name alone.
    Incomplete,
    Float,
}

/// A function's parameters and what it returns.
#[derive(Clone, Debug)]
pub(super) struct Prototype {
    pub(super) parameters: Vec<(String, TypeId)>,
    pub(super) returns: TypeId,
}

/// A member of a struct, which may be in anonymous ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// From the start of the outermost struct.
    pub(super) bit_offset: u64,
    /// Its width, of a bitfield.
    pub(super) bits: Option<u32>,
    pub(super) id: TypeId,
}

impl Types {
    /// Those of the kernel whose ELF file this is.
    ///
    /// # Errors
    /// It cannot be read, or it was built without BTF.
    pub fn of_vmlinux(path: &Path) -> Result<Types> {
        Types::parse(&image::in_elf(path)?, path)
    }

    /// Those of the kernel whose uncompressed boot image this is, which holds the same BTF as vmlinux.
    ///
    /// # Errors
    /// As of [`Types::of_vmlinux`].
    pub fn of_image(path: &Path) -> Result<Types> {
        Types::parse(&image::in_image(path)?, path)
    }

    fn parse(bytes: &[u8], path: &Path) -> Result<Types> {
        let btf = Btf::from_bytes(bytes);
        Ok(Types { btf: btf.with_context(|| format!("cannot read the BTF of `{}`", path.display()))? })
    }

    /// The prototype of a function of this name.
    pub(super) fn prototype(&self, function: &str) -> Result<Prototype> {
        let named = self.btf.resolve_types_by_name(function).unwrap_or_default();
        let mut found: Option<Prototype> = None;
        for named in named {
            let Type::Func(named) = named else { continue };
            let Type::FuncProto(prototype) = self.btf.resolve_chained_type(&named)? else {
                bail!("the BTF of `{function}` has no prototype")
            };
            let parameters = prototype.parameters.iter().filter(|parameter| !parameter.is_variadic());
            let parameters = parameters
                .map(|parameter| {
                    Ok((self.btf.resolve_name(parameter)?, parameter.get_type_id().unwrap_or(VOID)))
                })
                .collect::<Result<Vec<_>>>()?;
            let prototype = Prototype { parameters, returns: prototype.return_type_id() };
            if let Some(other) = &found
                && self.text(other) != self.text(&prototype)
            {
                bail!(
                    "there are several functions `{function}`, and they differ: {} and {}; write $arg1 and \
                     offsets for the one you mean",
                    self.text(other),
                    self.text(&prototype)
                );
            }
            found = Some(prototype);
        }
        found.with_context(|| {
            format!(
                "BTF has no prototype of `{function}`: it is no function of this kernel, or one whose \
                     parameters were optimized away"
            )
        })
    }

    /// A prototype as C has it, without the function's name.
    pub(super) fn text(&self, prototype: &Prototype) -> String {
        let named = |(name, id): &(String, TypeId)| spaced(&self.spelled(*id), name);
        let parameters: Vec<String> = prototype.parameters.iter().map(named).collect();
        format!("{} ({})", self.spelled(prototype.returns), parameters.join(", "))
    }

    /// What a type is behind its names and qualifiers, and whether they say that it is in user memory.
    pub(super) fn shape(&self, id: TypeId) -> Result<(Shape, bool)> {
        let (found, user) = self.stripped(id)?;
        let size = |size: usize| if size <= 16 { Ok(size) } else { bail!("a number of {size} bytes") };
        let shape = match found {
            Type::Void => Shape::Void,
            Type::Int(int) => Shape::Number {
                size: size(int.size())?,
                signed: int.is_signed(),
                // gcc says of no type that it is a character.
                character: int.size() == 1 && !int.is_bool() && self.name_of(&int).contains("char"),
            },
            Type::Enum(of) => {
                Shape::Number { size: size(of.size())?, signed: of.is_signed(), character: false }
            }
            Type::Enum64(of) => {
                Shape::Number { size: size(of.size())?, signed: of.is_signed(), character: false }
            }
            Type::Ptr(pointer) => Shape::Pointer { to: pointer.get_type_id().unwrap_or(VOID) },
            Type::Array(array) => {
                Shape::Array { of: array.get_type_id().unwrap_or(VOID), count: array.len() }
            }
            Type::Struct(_) | Type::Union(_) => Shape::Struct,
            Type::Fwd(_) => Shape::Incomplete,
            Type::FuncProto(_) => Shape::Function,
            Type::Float(_) => Shape::Float,
            other => bail!("a {} is no type of a value", other.name()),
        };
        Ok((shape, user))
    }

    /// The type behind names and qualifiers, and whether one of them is `__user`.
    fn stripped(&self, id: TypeId) -> Result<(Type, bool)> {
        let mut user = false;
        let mut found = self.btf.resolve_type_by_id(id)?;
        for _ in 0..DEPTH_MAX {
            let next = match &found {
                Type::TypeTag(tag) => {
                    user |= self.btf.resolve_name(tag).is_ok_and(|name| name == "user");
                    tag.get_type_id()
                }
                Type::Typedef(of) => of.get_type_id(),
                Type::Volatile(of) | Type::Const(of) | Type::Restrict(of) => of.get_type_id(),
                _ => return Ok((found, user)),
            };
            found = self.btf.resolve_type_by_id(next.unwrap_or(VOID))?;
        }
        bail!("more than {DEPTH_MAX} names for one type")
    }

    /// How many bytes a value of this type has.
    pub(super) fn size(&self, id: TypeId) -> Result<u64> {
        let mut times = 1_u64;
        let mut id = id;
        for _ in 0..DEPTH_MAX {
            let own = match self.stripped(id)?.0 {
                Type::Int(int) => int.size(),
                Type::Enum(of) => of.size(),
                Type::Enum64(of) => of.size(),
                Type::Ptr(_) => 8,
                Type::Struct(of) | Type::Union(of) => of.size(),
                Type::Array(array) => {
                    times = times.saturating_mul(array.len() as u64);
                    id = array.get_type_id().unwrap_or(VOID);
                    continue;
                }
                other => bail!("a {} has no size", other.name()),
            };
            return Ok(times.saturating_mul(own as u64));
        }
        bail!("an array of more than {DEPTH_MAX} dimensions")
    }

    /// The member of this name, of a struct or of an anonymous one in it.
    pub(super) fn member(&self, id: TypeId, name: &str) -> Result<Member> {
        let mut names = Vec::new();
        if let Some(found) = self.member_within(id, name, 0, &mut names)? {
            return Ok(found);
        }
        let of = self.spelled(id);
        match nearest(name, names.iter().map(String::as_str)) {
            Some(near) => bail!("`{of}` has no member `{name}`; the nearest is `{near}`"),
            None if names.len() <= 12 => bail!("`{of}` has no member `{name}`, only {}", names.join(", ")),
            None => bail!("`{of}` has no member `{name}`"),
        }
    }

    fn member_within(
        &self,
        id: TypeId,
        name: &str,
        depth: usize,
        names: &mut Vec<String>,
    ) -> Result<Option<Member>> {
        if depth > DEPTH_MAX {
            bail!("more than {DEPTH_MAX} anonymous members in one another");
        }
        let (Type::Struct(of) | Type::Union(of)) = self.stripped(id)?.0 else { return Ok(None) };
        for member in &of.members {
            let own = self.btf.resolve_name(member)?;
            let id = member.get_type_id().unwrap_or(VOID);
            let bit_offset = u64::from(member.bit_offset());
            if own == name {
                let bits = member.bitfield_size().filter(|&bits| bits > 0);
                return Ok(Some(Member { bit_offset, bits, id }));
            }
            if own.is_empty() {
                if let Some(found) = self.member_within(id, name, depth + 1, names)? {
                    return Ok(Some(Member { bit_offset: bit_offset + found.bit_offset, ..found }));
                }
            } else {
                names.push(own);
            }
        }
        Ok(None)
    }

    /// The struct, union, enum or typedef that a cast names.
    pub(super) fn named(&self, kind: Named, name: &str) -> Result<TypeId> {
        let fits = |found: &Type| match kind {
            Named::Struct => matches!(found, Type::Struct(_)),
            Named::Union => matches!(found, Type::Union(_)),
            Named::Enum => matches!(found, Type::Enum(_) | Type::Enum64(_)),
            Named::Plain => matches!(found, Type::Typedef(_) | Type::Int(_)),
        };
        let ids = self.btf.resolve_ids_by_name(name).unwrap_or_default();
        let mut ids = ids.into_iter().filter(|id| self.btf.resolve_type_by_id(*id).is_ok_and(|of| fits(&of)));
        let keyword = kind.keyword();
        let first = ids.next().with_context(|| format!("this kernel has no type `{keyword}{name}`"))?;
        // Files of the kernel may have types of their own by the same name.
        if let Some(other) = ids.find(|id| self.layout(*id) != self.layout(first)) {
            let sizes = [first, other].map(|id| self.size(id).unwrap_or_default());
            bail!(
                "this kernel has several types `{keyword}{name}`, and they differ ({} and {} bytes): begin \
                 with a parameter that has the one you mean",
                sizes[0],
                sizes[1]
            );
        }
        Ok(first)
    }

    /// Where a type has which members, and their types; of what has none, its size.
    fn layout(&self, id: TypeId) -> (u64, Vec<(String, u32, String)>) {
        let members = match self.btf.resolve_type_by_id(id) {
            Ok(Type::Struct(of) | Type::Union(of)) => of.members,
            _ => Vec::new(),
        };
        let member = |member: &btf_rs::Member| {
            let of = self.spelled(member.get_type_id().unwrap_or(VOID));
            (self.name_of(member), member.bit_offset(), of)
        };
        (self.size(id).unwrap_or_default(), members.iter().map(member).collect())
    }

    /// A type as C spells it.
    pub(super) fn spelled(&self, id: TypeId) -> String {
        self.spelled_within(id, 0)
    }

    fn spelled_within(&self, id: TypeId, depth: usize) -> String {
        let Ok(found) = self.btf.resolve_type_by_id(id) else { return "?".to_owned() };
        let of = |found: &dyn BtfType| match depth < DEPTH_MAX {
            true => self.spelled_within(found.get_type_id().unwrap_or(VOID), depth + 1),
            false => "?".to_owned(),
        };
        let named = |kind: &str, found: &dyn BtfType| match self.name_of(found) {
            name if name.is_empty() => format!("{kind} {{…}}"),
            name => format!("{kind} {name}"),
        };
        match &found {
            Type::Void => "void".to_owned(),
            Type::Ptr(pointer) => spaced(&of(pointer), "*"),
            Type::Array(array) => format!("{}[{}]", of(array), array.len()),
            Type::Struct(found) => named("struct", found),
            Type::Union(found) => named("union", found),
            Type::Enum(found) => named("enum", found),
            Type::Enum64(found) => named("enum", found),
            Type::Fwd(found) => named(if found.is_union() { "union" } else { "struct" }, found),
            Type::Const(found) => format!("const {}", of(found)),
            Type::Volatile(found) => format!("volatile {}", of(found)),
            Type::Restrict(found) => of(found),
            Type::TypeTag(found) => format!("{} __{}", of(found), self.name_of(found)),
            Type::FuncProto(_) => "function".to_owned(),
            other => other.as_btf_type().map(|found| self.name_of(found)).unwrap_or_default(),
        }
    }

    fn name_of(&self, found: &dyn BtfType) -> String {
        self.btf.resolve_name(found).unwrap_or_default()
    }
}

/// What the keyword before a type's name says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    Struct,
    Union,
    Enum,
    /// A typedef, or a number's own name.
    Plain,
}

impl Named {
    fn keyword(self) -> &'static str {
        match self {
            Named::Struct => "struct ",
            Named::Union => "union ",
            Named::Enum => "enum ",
            Named::Plain => "",
        }
    }
}

/// A type and what is declared with it; a star stands close to the name.
fn spaced(of: &str, name: &str) -> String {
    let between = if of.ends_with('*') || name.is_empty() { "" } else { " " };
    format!("{of}{between}{name}")
}
