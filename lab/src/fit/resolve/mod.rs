//! A [`Path`] and the types of a kernel → a fetch argument for the kernel's probe parser.
//!
//! Members become offsets, arrows become memory fetches, and the type at the end becomes the format:
//! `file->f_inode->i_mode` is `+0(+32($arg1)):u16`.

mod format;
mod operators;

use crate::{
    kernel::{
        KernelVersion,
        types::{Prototype, Shape, TypeId, Types, VOID},
    },
    scenario::fetch::{
        fetch,
        path::{Path, PathError, Value, ValueKind},
    },
    words::nearest_is,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::{fmt, ops::Range};

/// The maximum length of a fetch argument in characters (MAX_ARGSTR_LEN).
const FETCH_ARG_MAX: usize = 63;

/// The number of registers that arguments are passed in.
const ARGUMENT_REGISTERS: u32 = 8;

/// The place of a probe in a function, which determines the values available there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeLocation {
    /// At the entry: the parameters.
    Entry,
    /// At the return: the return value.
    Return {
        /// Whether the parameters are also available, because the kernel saves them.
        parameters: bool,
    },
}

impl ProbeLocation {
    /// Returns the place of a return probe on a kernel of this version. Before 6.9 it has no `$argN`.
    pub fn of_return(version: &KernelVersion) -> ProbeLocation {
        ProbeLocation::Return { parameters: (version.major, version.minor) >= (6, 9) }
    }
}

/// A path, resolved for a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Resolved {
    /// The fetch argument for the kernel's probe parser, including the format.
    pub fetch_arg: String,
    /// The steps by which it was resolved.
    pub steps: Vec<Step>,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Step {
    /// The part of the path up to it.
    pub path: String,
    /// The place of the value: `$arg1`, `+32`, `bits 3-5 of +12`.
    pub place: String,
    /// Its type in C syntax.
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

/// The place of a value.
#[derive(Clone, Debug)]
enum Where {
    /// The value itself, as a fetch argument.
    Fetched(String),
    /// In memory, `offset` bytes after the fetched address.
    Memory { base: String, offset: i64, user: bool },
    /// Some bits of a number in memory.
    Bits(Bits),
}

/// A bitfield: `bits` bits, `bit_offset` bits after the fetched address.
#[derive(Clone, Debug)]
struct Bits {
    base: String,
    bit_offset: u64,
    bits: u32,
    user: bool,
}

/// A value and its type, at any step of a path.
#[derive(Clone, Debug)]
struct Resolution {
    place: Where,
    id: Of,
}

/// A type of BTF, or pointers to one; a cast may use pointers that BTF does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Of {
    id: TypeId,
    /// The number of pointers to it.
    pointers: u32,
    /// Whether the last of them points to user memory.
    user: bool,
}

impl Of {
    fn plain(id: TypeId) -> Of {
        Of { id, pointers: 0, user: false }
    }
}

/// Returns the function that the kernel attaches to a tracepoint, and probes, for a tracepoint probe.
pub(super) fn tracepoint_stub(tracepoint: &str) -> String {
    format!("__probestub_{tracepoint}")
}

/// Resolves the paths of probes on one function or tracepoint.
pub struct Resolver<'a> {
    types: &'a Types,
    function: &'a str,
    prototype: Prototype,
    place: ProbeLocation,
}

impl<'a> Resolver<'a> {
    /// Looks up the prototype of `function`.
    ///
    /// # Errors
    /// The kernel has no such function, or several that differ.
    pub fn new(types: &'a Types, function: &'a str, place: ProbeLocation) -> anyhow::Result<Resolver<'a>> {
        let prototype = types.prototype(function)?;
        Ok(Resolver { types, function, prototype, place })
    }

    /// Looks up the parameters of a tracepoint of the kernel itself.
    ///
    /// # Errors
    /// The kernel has no such tracepoint.
    pub fn of_tracepoint(types: &'a Types, tracepoint: &'a str) -> anyhow::Result<Resolver<'a>> {
        let mut prototype = types.prototype(&tracepoint_stub(tracepoint))?;
        // The data of a function attached to the tracepoint comes first, and `$argN` does not count it.
        prototype.parameters = prototype.parameters.into_iter().skip(1).collect();
        Ok(Resolver { types, function: tracepoint, prototype, place: ProbeLocation::Entry })
    }

    /// Returns the function's prototype in C syntax.
    pub fn prototype(&self) -> String {
        let text = self.types.text(&self.prototype);
        match text.split_once(" (") {
            Some((returns, parameters)) => format!("{returns} {}({parameters}", self.function),
            None => text,
        }
    }

    /// Returns the parameter with this number, from 1.
    ///
    /// # Errors
    /// There is none, or it is not in a register.
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

    /// Resolves a path.
    ///
    /// # Errors
    /// It is not a path, or does not exist on this kernel; the error has the position.
    pub fn resolve(&self, text: &str) -> Result<Resolved, PathError> {
        let path = Path::parse(text)?;
        let mut walk = Walk { resolver: self, text, steps: Vec::new() };
        let found = walk.value(&path.value)?;
        let fetch_arg = walk.formatted(&found, path.format.as_deref(), &path.value.at)?;
        if fetch_arg.len() > FETCH_ARG_MAX {
            let message = format!(
                "`{fetch_arg}` has {} characters, but the kernel accepts at most {FETCH_ARG_MAX}",
                fetch_arg.len()
            );
            return Err(PathError { message, at: 0..text.len() });
        }
        Ok(Resolved { fetch_arg, steps: walk.steps })
    }
}

/// A parameter as described by the kernel's BTF.
pub(super) struct KnownParameter {
    pub(super) name: String,
    /// Its type in C syntax.
    pub(super) spelled: String,
    /// Its size in bytes.
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

    /// Returns the shape of a type, and whether it is in user memory.
    fn shape(&self, of: Of, at: &Range<usize>) -> Result<(Shape, bool), PathError> {
        match of.pointers {
            0 => self.told(at, self.types().shape(of.id)),
            _ => Ok((Shape::Pointer { to: VOID }, false)),
        }
    }

    /// Returns the type that a pointer points to, and whether that is in user memory.
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

    fn value(&mut self, value: &Value) -> Result<Resolution, PathError> {
        let at = &value.at;
        let found = match &value.is {
            ValueKind::Parameter(name) => self.parameter(name, at)?,
            ValueKind::Argument(number) => self.argument(*number, at)?,
            ValueKind::Returned => self.returned(at)?,
            ValueKind::Pointee(of) => {
                let of = self.value(of)?;
                self.element(of, 0, at)?
            }
            ValueKind::Address(of) => {
                let of = self.value(of)?;
                self.address(of, at)?
            }
            ValueKind::Cast(to, of) => {
                let of = self.value(of)?;
                self.cast(of, to, at)?
            }
            ValueKind::Member { of, name, arrow } => {
                let of = self.value(of)?;
                self.member(of, name, *arrow, at)?
            }
            ValueKind::Element { of, number } => {
                let of = self.value(of)?;
                self.element(of, *number, at)?
            }
        };
        let place = match &found.place {
            Where::Fetched(fetch) => fetch.clone(),
            Where::Memory { offset, .. } => format!("{offset:+}"),
            Where::Bits(Bits { bit_offset, bits, .. }) => {
                let first = bit_offset % 8;
                format!("bits {first}-{} of {:+}", first + u64::from(*bits) - 1, bit_offset / 8)
            }
        };
        let path = self.text.get(at.clone()).unwrap_or_default().to_owned();
        self.steps.push(Step { path, place, of: self.spelled(found.id) });
        Ok(found)
    }

    fn parameter(&self, name: &str, at: &Range<usize>) -> Result<Resolution, PathError> {
        let parameters = &self.resolver.prototype.parameters;
        match parameters.iter().position(|(known, _)| known == name) {
            Some(index) => self.argument(index as u32 + 1, at),
            None => {
                let function = self.resolver.function;
                let names: Vec<&str> = parameters.iter().map(|(name, _)| name.as_str()).collect();
                let mut known = nearest_is(name, names.iter().copied());
                if names.is_empty() {
                    known = "; it has no parameters".to_owned();
                } else if known.is_empty() {
                    known = format!(", only {}", names.join(", "));
                }
                self.fails(at, format!("`{function}` has no parameter `{name}`{known}"))
            }
        }
    }

    fn argument(&self, number: u32, at: &Range<usize>) -> Result<Resolution, PathError> {
        let Resolver { function, prototype, place, .. } = self.resolver;
        if *place == (ProbeLocation::Return { parameters: false }) {
            let message = "arguments are not available at a return before 6.9: use a kprobe";
            return self.fails(at, message);
        }
        let Some((name, id)) = prototype.parameters.get(number as usize - 1) else {
            let count = prototype.parameters.len();
            return self
                .fails(at, format!("`{function}` has {count} parameters, so there is no `$arg{number}`"));
        };
        // A struct may take two registers, or none; this and all earlier parameters must take one each.
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
                format!("`{known}` of `{function}` is a {of}, so the register of `{name}` is not known"),
            );
        }
        if number > ARGUMENT_REGISTERS {
            return self.fails(
                at,
                format!(
                    "`{name}` is passed on the stack: only the first {ARGUMENT_REGISTERS} parameters are in \
                     registers"
                ),
            );
        }
        Ok(Resolution { place: Where::Fetched(format!("$arg{number}")), id: Of::plain(*id) })
    }

    fn returned(&self, at: &Range<usize>) -> Result<Resolution, PathError> {
        let Resolver { function, prototype, place, .. } = self.resolver;
        if *place == ProbeLocation::Entry {
            return self.fails(at, "`$retval` is available only at a return: use a kretprobe");
        }
        if self.told(at, self.types().shape(prototype.returns))?.0 == Shape::Void {
            return self.fails(at, format!("`{function}` returns void"));
        }
        Ok(Resolution { place: Where::Fetched("$retval".to_owned()), id: Of::plain(prototype.returns) })
    }

    /// Returns the fetch argument of the value, without a format.
    fn fetched(&self, found: &Resolution, at: &Range<usize>) -> Result<String, PathError> {
        match &found.place {
            Where::Fetched(fetch) => Ok(fetch.clone()),
            Where::Memory { base, offset, user } => Ok(fetch(base, *offset, *user)),
            Where::Bits(_) => self.fails(at, "a bitfield is not a pointer"),
        }
    }
}
