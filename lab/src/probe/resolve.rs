//! A [`Path`] and the types of a kernel → what the kernel's probe parser takes.
//!
//! Members become offsets, arrows become fetches of memory, and the type of the end becomes the format:
//! `file->f_inode->i_mode` is `+0(+32($arg1)):u16`.

mod format;
mod operators;

use super::{
    path::{Kind, Path, PathError, Value},
    types::{Prototype, Shape, TypeId, Types, VOID},
};
use crate::{kernel::KernelVersion, scenario::nearest};
pub(super) use format::fetch;
use std::{fmt, ops::Range};

/// What the kernel takes of one argument (MAX_ARGSTR_LEN).
const FETCH_ARG_MAX: usize = 63;

/// The registers that arguments are passed in.
const ARGUMENT_REGISTERS: u32 = 8;

/// What a probe is on: where its values come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Of a function, where its parameters are.
    Entry,
    /// Of a function, where what it returned is.
    Return {
        /// Whether its parameters are there, too: the kernel keeps them for it.
        parameters: bool,
    },
}

impl Place {
    /// Where a function of a kernel of this version returns. Up to 6.8 a return probe has no `$argN`.
    pub fn of_return(version: &KernelVersion) -> Place {
        Place::Return { parameters: (version.major, version.minor) >= (6, 9) }
    }
}

/// A path, resolved for a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// What the kernel's probe parser takes, format included.
    pub fetch_arg: String,
    /// How it came about.
    pub steps: Vec<Step>,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The part of the path up to it.
    pub path: String,
    /// Where it is: `$arg1`, `+32`, `bits 3-5 of +12`.
    pub place: String,
    /// Its type, as C spells it.
    pub of: String,
}

impl fmt::Display for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |of: fn(&Step) -> &str| self.steps.iter().map(|step| of(step).len()).max().unwrap_or(0);
        let (path, place) = (width(|step| &step.path), width(|step| &step.place));
        write!(f, "{}", self.fetch_arg)?;
        self.steps
            .iter()
            .try_for_each(|step| write!(f, "\n  {:path$}  {:>place$}  {}", step.path, step.place, step.of))
    }
}

/// What there is of a value.
#[derive(Clone, Debug)]
enum Where {
    /// The value itself, as the kernel fetches it.
    Fetched(String),
    /// In memory, so many bytes behind what is fetched.
    Memory { base: String, offset: i64, user: bool },
    /// Some bits of a number in memory.
    Bits { base: String, bit_offset: u64, bits: u32, user: bool },
}

/// A value on its way.
#[derive(Clone, Debug)]
struct Found {
    place: Where,
    id: Of,
}

/// A type: one of BTF's, or pointers to one, which a cast may make without BTF having them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Of {
    id: TypeId,
    /// How many pointers stand before it.
    pointers: u32,
    /// Whether the last of them is the user's.
    user: bool,
}

impl Of {
    fn plain(id: TypeId) -> Of {
        Of { id, pointers: 0, user: false }
    }
}

/// Resolves the paths of probes on one function.
pub struct Resolver<'a> {
    types: &'a Types,
    function: &'a str,
    prototype: Prototype,
    place: Place,
}

impl<'a> Resolver<'a> {
    /// # Errors
    /// The kernel has no such function, or several that differ.
    pub fn new(types: &'a Types, function: &'a str, place: Place) -> anyhow::Result<Resolver<'a>> {
        let prototype = types.prototype(function)?;
        Ok(Resolver { types, function, prototype, place })
    }

    /// The function's prototype, as C has it.
    pub fn prototype(&self) -> String {
        let text = self.types.text(&self.prototype);
        match text.split_once(" (") {
            Some((returns, parameters)) => format!("{returns} {}({parameters}", self.function),
            None => text,
        }
    }

    /// The parameter of this number, from 1.
    ///
    /// # Errors
    /// There is none, or it is in no register.
    pub(super) fn parameter_of(&self, number: u32) -> Result<KnownParameter, PathError> {
        let walk = Walk { resolver: self, text: "", steps: Vec::new() };
        let found = walk.argument(number, &(0..0))?;
        let name = self.prototype.parameters.get(number as usize - 1).map(|(name, _)| name.clone());
        Ok(KnownParameter {
            name: name.unwrap_or_default(),
            spelled: walk.spelled(found.id),
            size: walk.size(found.id, &(0..0))?,
        })
    }

    /// # Errors
    /// It is no path, or this kernel has nothing there; the error says where.
    pub fn resolve(&self, text: &str) -> Result<Resolved, PathError> {
        let path = Path::parse(text)?;
        let mut walk = Walk { resolver: self, text, steps: Vec::new() };
        let found = walk.value(&path.value)?;
        let fetch_arg = walk.formatted(&found, path.format.as_deref(), &path.value.at)?;
        if fetch_arg.len() > FETCH_ARG_MAX {
            let message = format!(
                "`{fetch_arg}` has {} characters, and the kernel takes {FETCH_ARG_MAX}",
                fetch_arg.len()
            );
            return Err(PathError { message, at: 0..text.len() });
        }
        Ok(Resolved { fetch_arg, steps: walk.steps })
    }
}

/// What the kernel's types say of a parameter.
pub(super) struct KnownParameter {
    pub(super) name: String,
    /// Its type, as C has it.
    pub(super) spelled: String,
    /// In bytes.
    pub(super) size: u64,
}

struct Walk<'a> {
    resolver: &'a Resolver<'a>,
    text: &'a str,
    steps: Vec<Step>,
}

impl Walk<'_> {
    fn types(&self) -> &Types {
        self.resolver.types
    }

    fn fails<T>(&self, at: &Range<usize>, message: impl Into<String>) -> Result<T, PathError> {
        Err(PathError { message: message.into(), at: at.clone() })
    }

    fn told<T>(&self, at: &Range<usize>, result: anyhow::Result<T>) -> Result<T, PathError> {
        result.map_err(|error| PathError { message: format!("{error:#}"), at: at.clone() })
    }

    fn spelled(&self, of: Of) -> String {
        let stars = "*".repeat(of.pointers as usize);
        let user = if of.user { "__user " } else { "" };
        let name = self.types().spelled(of.id);
        let blank = if stars.is_empty() || name.ends_with('*') { "" } else { " " };
        format!("{name}{blank}{user}{stars}")
    }

    /// The shape of a type, and whether it is of user memory.
    fn shape(&self, of: Of, at: &Range<usize>) -> Result<(Shape, bool), PathError> {
        match of.pointers {
            0 => self.told(at, self.types().shape(of.id)),
            _ => Ok((Shape::Pointer { to: VOID }, false)),
        }
    }

    /// What a pointer points to, and whether that is the user's.
    fn pointee(&self, of: Of, at: &Range<usize>) -> Result<Option<(Of, bool)>, PathError> {
        if of.pointers > 0 {
            return Ok(Some((Of { pointers: of.pointers - 1, user: false, ..of }, of.user)));
        }
        let (Shape::Pointer { to }, _) = self.shape(of, at)? else { return Ok(None) };
        let (_, user) = self.told(at, self.types().shape(to))?;
        Ok(Some((Of::plain(to), user)))
    }

    fn size(&self, of: Of, at: &Range<usize>) -> Result<u64, PathError> {
        match of.pointers {
            0 => self.told(at, self.types().size(of.id)),
            _ => Ok(8),
        }
    }

    fn value(&mut self, value: &Value) -> Result<Found, PathError> {
        let at = &value.at;
        let found = match &value.is {
            Kind::Parameter(name) => self.parameter(name, at)?,
            Kind::Argument(number) => self.argument(*number, at)?,
            Kind::Returned => self.returned(at)?,
            Kind::Pointee(of) => {
                let of = self.value(of)?;
                self.element(of, 0, at)?
            }
            Kind::Address(of) => {
                let of = self.value(of)?;
                self.address(of, at)?
            }
            Kind::Cast(to, of) => {
                let of = self.value(of)?;
                self.cast(of, to, at)?
            }
            Kind::Member { of, name, arrow } => {
                let of = self.value(of)?;
                self.member(of, name, *arrow, at)?
            }
            Kind::Element { of, number } => {
                let of = self.value(of)?;
                self.element(of, *number, at)?
            }
        };
        let place = match &found.place {
            Where::Fetched(fetch) => fetch.clone(),
            Where::Memory { offset, .. } => format!("{offset:+}"),
            Where::Bits { bit_offset, bits, .. } => {
                let first = bit_offset % 8;
                format!("bits {first}-{} of {:+}", first + u64::from(*bits) - 1, bit_offset / 8)
            }
        };
        let path = self.text.get(at.clone()).unwrap_or_default().to_owned();
        self.steps.push(Step { path, place, of: self.spelled(found.id) });
        Ok(found)
    }

    fn parameter(&self, name: &str, at: &Range<usize>) -> Result<Found, PathError> {
        let parameters = &self.resolver.prototype.parameters;
        match parameters.iter().position(|(known, _)| known == name) {
            Some(index) => self.argument(index as u32 + 1, at),
            None => {
                let function = self.resolver.function;
                let names: Vec<&str> = parameters.iter().map(|(name, _)| name.as_str()).collect();
                let known = match nearest(name, names.iter().copied()) {
                    Some(near) => format!("; the nearest is `{near}`"),
                    None if names.is_empty() => "; it has none".to_owned(),
                    None => format!(", only {}", names.join(", ")),
                };
                self.fails(at, format!("`{function}` has no parameter `{name}`{known}"))
            }
        }
    }

    fn argument(&self, number: u32, at: &Range<usize>) -> Result<Found, PathError> {
        let Resolver { function, prototype, place, .. } = self.resolver;
        if *place == (Place::Return { parameters: false }) {
            let message =
                "what a function was called with is not there when it returns, up to 6.8: use a kprobe";
            return self.fails(at, message);
        }
        let Some((name, id)) = prototype.parameters.get(number as usize - 1) else {
            let count = prototype.parameters.len();
            return self.fails(at, format!("`{function}` has {count} parameters, and no `$arg{number}`"));
        };
        // Structs may take two registers, or none; all before and this one have to be of one each.
        let before = &prototype.parameters[..number as usize];
        let whole = before.iter().find(|(_, id)| {
            !matches!(
                self.types().shape(*id),
                Ok((Shape::Number { size: ..=8, .. } | Shape::Pointer { .. }, _))
            )
        });
        if let Some((known, id)) = whole {
            let of = self.types().spelled(*id);
            return self.fails(
                at,
                format!("`{known}` of `{function}` is a {of}, so `{name}` is in no register of its own"),
            );
        }
        if number > ARGUMENT_REGISTERS {
            return self.fails(
                at,
                format!("`{name}` is on the stack: {ARGUMENT_REGISTERS} parameters are in registers"),
            );
        }
        Ok(Found { place: Where::Fetched(format!("$arg{number}")), id: Of::plain(*id) })
    }

    fn returned(&self, at: &Range<usize>) -> Result<Found, PathError> {
        let Resolver { function, prototype, place, .. } = self.resolver;
        if *place == Place::Entry {
            return self.fails(at, "`$retval` is there when the function returns: use a kretprobe");
        }
        if self.told(at, self.types().shape(prototype.returns))?.0 == Shape::Void {
            return self.fails(at, format!("`{function}` returns nothing"));
        }
        Ok(Found { place: Where::Fetched("$retval".to_owned()), id: Of::plain(prototype.returns) })
    }

    /// The value as the kernel fetches it.
    fn fetched(&self, found: &Found, at: &Range<usize>) -> Result<String, PathError> {
        match &found.place {
            Where::Fetched(fetch) => Ok(fetch.clone()),
            Where::Memory { base, offset, user } => Ok(fetch(base, *offset, *user)),
            Where::Bits { .. } => self.fails(at, "bits of a number point nowhere"),
        }
    }
}
