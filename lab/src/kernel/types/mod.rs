//! The types of a kernel and the prototypes of its functions, from BTF.
//!
//! BTF is not trusted: chains and nesting are followed to a limited depth only, and anything missing is an
//! error, never a panic.

mod image;

use crate::words::nearest_is;
use anyhow::{Context, Result, bail};
use btf_rs::{Btf, BtfType, Type};
use std::{fmt, path::Path};

/// The type `void`.
pub(crate) const VOID: TypeId = 0;

/// The maximum length of a chain of names, qualifiers or anonymous members.
const DEPTH_MAX: usize = 32;

/// The number of a type in BTF.
pub(crate) type TypeId = u32;

/// The types of a kernel.
pub struct Types {
    btf: Btf,
}

impl fmt::Debug for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Types").finish_non_exhaustive()
    }
}

/// A type without its names and qualifiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Void,
    /// Also an enum or a bool. The size is in bytes.
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
    /// A struct of which this kernel's BTF has only the name.
    Incomplete,
    Float,
}

/// A function's parameters and return type.
#[derive(Clone, Debug)]
pub(crate) struct Prototype {
    pub(crate) parameters: Vec<(String, TypeId)>,
    pub(crate) returns: TypeId,
}

/// A member of a struct, or of anonymous structs in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// From the start of the outermost struct.
    pub(crate) bit_offset: u64,
    /// The width, if it is a bitfield.
    pub(crate) bits: Option<u32>,
    pub(crate) id: TypeId,
}

impl Types {
    /// Reads the types of the kernel with this ELF file.
    ///
    /// # Errors
    /// It cannot be read, or it was built without BTF.
    pub fn of_vmlinux(path: &Path) -> Result<Types> {
        Types::parse(&image::in_elf(path)?, path)
    }

    /// Reads the types of the kernel with this uncompressed boot image, which has the same BTF as vmlinux.
    ///
    /// # Errors
    /// Like [`Types::of_vmlinux`].
    pub fn of_image(path: &Path) -> Result<Types> {
        Types::parse(&image::in_image(path)?, path)
    }

    fn parse(bytes: &[u8], path: &Path) -> Result<Types> {
        let btf = Btf::from_bytes(bytes);
        Ok(Types { btf: btf.with_context(|| format!("cannot read the BTF of `{}`", path.display()))? })
    }

    /// Returns the prototype of the function with this name.
    pub(crate) fn prototype(&self, function: &str) -> Result<Prototype> {
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
                    "there are several functions `{function}` with different prototypes: {} and {}; write \
                     $arg1 and offsets instead",
                    self.text(other),
                    self.text(&prototype)
                );
            }
            found = Some(prototype);
        }
        found.with_context(|| {
            format!(
                "BTF has no prototype of `{function}`: not a function of this kernel, or its parameters \
                     were optimized away"
            )
        })
    }

    /// Returns a prototype in C syntax, without the function's name.
    pub(crate) fn text(&self, prototype: &Prototype) -> String {
        let named = |(name, id): &(String, TypeId)| spaced(&self.spelled(*id), name);
        let parameters: Vec<String> = prototype.parameters.iter().map(named).collect();
        format!("{} ({})", self.spelled(prototype.returns), parameters.join(", "))
    }

    /// Returns the shape of a type, and whether a qualifier puts it in user memory.
    pub(crate) fn shape(&self, id: TypeId) -> Result<(Shape, bool)> {
        let (found, user) = self.stripped(id)?;
        let size = |size: usize| if size <= 16 { Ok(size) } else { bail!("a number of {size} bytes") };
        let shape = match found {
            Type::Void => Shape::Void,
            Type::Int(int) => Shape::Number {
                size: size(int.size())?,
                signed: int.is_signed(),
                // gcc marks no type as a character.
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
            other => bail!("a {} is not the type of a value", other.name()),
        };
        Ok((shape, user))
    }

    /// Returns the type without names and qualifiers, and whether one of them is `__user`.
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
        bail!("more than {DEPTH_MAX} names and qualifiers in one type")
    }

    /// Returns the size of a value of this type, in bytes.
    pub(crate) fn size(&self, id: TypeId) -> Result<u64> {
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

    /// Returns the member with this name, of a struct or of an anonymous one in it.
    pub(crate) fn member(&self, id: TypeId, name: &str) -> Result<Member> {
        let mut names = Vec::new();
        if let Some(found) = self.member_within(id, name, 0, &mut names)? {
            return Ok(found);
        }
        let of = self.spelled(id);
        let near = nearest_is(name, &names);
        if near.is_empty() && names.len() <= 12 {
            bail!("`{of}` has no member `{name}`, only {}", names.join(", "));
        }
        bail!("`{of}` has no member `{name}`{near}")
    }

    fn member_within(
        &self,
        id: TypeId,
        name: &str,
        depth: usize,
        names: &mut Vec<String>,
    ) -> Result<Option<Member>> {
        if depth > DEPTH_MAX {
            bail!("more than {DEPTH_MAX} levels of anonymous members");
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

    /// Returns the struct, union, enum or typedef that a cast names.
    pub(crate) fn named(&self, kind: Named, name: &str) -> Result<TypeId> {
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
        // Source files of the kernel may define different types with the same name.
        if let Some(other) = ids.find(|id| self.layout(*id) != self.layout(first)) {
            let sizes = [first, other].map(|id| self.size(id).unwrap_or_default());
            bail!(
                "this kernel has several different types `{keyword}{name}` ({} and {} bytes): begin with a \
                 parameter of the intended type",
                sizes[0],
                sizes[1]
            );
        }
        Ok(first)
    }

    /// Returns the size of a type, and the name, offset and type of each member.
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

    /// Returns a type in C syntax.
    pub(crate) fn spelled(&self, id: TypeId) -> String {
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

/// The kind of a named type, by the keyword before its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Struct,
    Union,
    Enum,
    /// A typedef, or the name of a number.
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

/// Returns a declaration of `name`, without a blank after a star.
fn spaced(of: &str, name: &str) -> String {
    let between = if of.ends_with('*') || name.is_empty() { "" } else { " " };
    format!("{of}{between}{name}")
}
