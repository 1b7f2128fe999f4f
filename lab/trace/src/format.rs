//! The `format` files: the fields of an event's record, and their locations.
//!
//! A format is data from the guest and not trusted: sizes and offsets are capped here and checked
//! against each record when a field is read.

use super::{
    fields::Declaration,
    print::{self, Printed, Printer, Table},
};
use anyhow::{Context, Result, bail};
use std::sync::OnceLock;

/// The maximum number of fields of a format.
const FIELDS_MAX: usize = 1024;
/// The largest offset or size of a field: a record is no larger than a page.
const EXTENT_MAX: usize = super::page::SUB_BUFFER_MAX;

/// One event of the kernel: its name, number, fields and print format.
#[derive(Debug)]
pub struct EventFormat {
    id: u16,
    name: String,
    group: String,
    /// The common fields first.
    fields: Vec<FieldFormat>,
    common: usize,
    print: String,
    tables: Vec<Table>,
    /// Parsed on first use: only printing needs it.
    printer: OnceLock<Option<Printer>>,
    pid_at: Option<usize>,
}

/// One field of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldFormat {
    /// The name, such as `prev_comm`.
    pub name: String,
    /// The C type as the kernel wrote it, without the array part after the name.
    pub type_name: String,
    /// The offset from the start of the record, in bytes.
    pub offset: usize,
    /// The size in bytes; 0 for an array that extends to the end of its record.
    pub size: usize,
    /// Whether the kernel declares it signed.
    pub signed: bool,
    /// Whether the kernel declares it with brackets after its name.
    declared_array: bool,
    pub(crate) kind: FieldKind,
}

/// The representation of a field's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldKind {
    /// An integer of 1, 2, 4 or 8 bytes; with `bits`, only its lowest ones.
    Integer { bits: Option<u32> },
    /// An address: an integer printed in hexadecimal.
    Pointer,
    /// Characters up to the first NUL, or to the end of the field.
    Text,
    /// Consecutive elements of this many bytes.
    Array { element: usize },
    /// Elements from the field's offset to the end of the record.
    Tail(Element),
    /// Words that locate data in the record: the length in the upper half, the offset in the lower,
    /// relative to the end of the word for `__rel_loc`.
    Located { relative: bool, element: Element, many: bool },
    /// The text of a `print`, `bprint` or `bputs` entry, which the record holds in parts.
    Message,
    /// A structure, or anything else that is not interpreted.
    Opaque,
}

/// The element type of a dynamic array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    /// Characters: the array is a string.
    Char,
    /// Integers of this many bytes.
    Integer(usize),
    /// An element that is not interpreted.
    Opaque,
}

impl EventFormat {
    /// Parses the text of a `format` file. `group` is the directory it was in, `long_size` the size
    /// of the kernel's `long` in bytes.
    pub fn parse(group: &str, text: &str, long_size: usize) -> Result<EventFormat> {
        // Elements of size 0 would never fill an array.
        let long_size = long_size.max(1);
        let (mut name, mut id, mut fields) = (None, None, Vec::new());
        let (head, print) = match text.find("print fmt:") {
            Some(at) => (&text[..at], text[at + "print fmt:".len()..].trim()),
            None => (text, ""),
        };
        for line in head.lines() {
            if let Some(rest) = line.strip_prefix("name:") {
                name = Some(rest.trim());
            } else if let Some(rest) = line.strip_prefix("ID:") {
                id =
                    Some(rest.trim().parse::<u16>().with_context(|| {
                        format!("the event number `{}` is not a 16-bit number", rest.trim())
                    })?);
            } else if let Some(declaration) = Declaration::parse(line) {
                if fields.len() == FIELDS_MAX {
                    bail!("the format of an event in `{group}` has more than {FIELDS_MAX} fields");
                }
                fields.push(FieldFormat::new(&declaration, long_size)?);
            }
        }
        let (Some(name), Some(id)) = (name, id) else {
            bail!("a format in `{group}` lacks its `name:` or its `ID:`");
        };
        if group == "ftrace" && matches!(name, "print" | "bprint" | "bputs") {
            fields.push(FieldFormat::message());
        }
        fields.iter_mut().for_each(|field| field.bytes_if_printed_so(print));
        Ok(EventFormat::assemble(id, name, group, fields, print))
    }

    /// Returns the stand-in for a record whose number no format has: only its common fields are
    /// known.
    pub(crate) fn unknown(common: &[FieldFormat]) -> EventFormat {
        EventFormat::assemble(0, "unknown", "", common.to_vec(), "")
    }

    fn assemble(id: u16, name: &str, group: &str, fields: Vec<FieldFormat>, print: &str) -> EventFormat {
        let common = fields.iter().take_while(|field| field.name.starts_with("common_")).count();
        let pid_at = fields[..common]
            .iter()
            .find(|field| field.name == "common_pid" && field.size == 4)
            .map(|field| field.offset);
        EventFormat {
            id,
            name: name.to_owned(),
            group: group.to_owned(),
            tables: print::tables(print),
            fields,
            common,
            print: print.to_owned(),
            printer: OnceLock::new(),
            pid_at,
        }
    }

    /// Returns the event's name: `sched_switch`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the system of the event: `sched`; `ftrace` for ftrace's own entries.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// Returns the event's number, which records have in `common_type`.
    pub fn id(&self) -> u16 {
        self.id
    }

    /// Returns all fields, the common ones first.
    pub fn fields(&self) -> &[FieldFormat] {
        &self.fields
    }

    /// Returns the event's own fields.
    pub fn own_fields(&self) -> &[FieldFormat] {
        &self.fields[self.common..]
    }

    /// Returns the fields that every event has: type, flags, preempt count, PID.
    pub fn common_fields(&self) -> &[FieldFormat] {
        &self.fields[..self.common]
    }

    /// Returns the field called `name`, including common fields.
    #[inline]
    pub fn field(&self, name: &str) -> Option<&FieldFormat> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Returns the print format, from the first quote to the end.
    pub fn print_format(&self) -> &str {
        &self.print
    }

    /// Returns the `__print_symbolic` table that the print format applies to `field`.
    pub fn symbolic(&self, field: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.field() == field && table.kind() == Printed::Symbolic)
    }

    /// Returns the `__print_flags` table that the print format applies to `field`.
    pub fn flags(&self, field: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.field() == field && table.kind() == Printed::Flags)
    }

    /// Returns the formatter of records; `None` if the decoder does not support the print format.
    pub(crate) fn printer(&self) -> Option<&Printer> {
        self.printer.get_or_init(|| Printer::new(&self.print)).as_ref()
    }

    /// Returns the offset of `common_pid`.
    #[inline]
    pub(crate) fn pid_at(&self) -> Option<usize> {
        self.pid_at
    }
}

impl FieldFormat {
    fn new(declaration: &Declaration<'_>, long_size: usize) -> Result<FieldFormat> {
        let Declaration { offset, size, signed, .. } = *declaration;
        if offset > EXTENT_MAX || size > EXTENT_MAX {
            bail!("the field `{}` lies outside any record", declaration.name);
        }
        Ok(FieldFormat {
            name: declaration.name.to_owned(),
            type_name: declaration.type_name.to_owned(),
            offset,
            size,
            signed,
            declared_array: declaration.array.is_some(),
            kind: FieldKind::of(declaration, long_size),
        })
    }

    /// Treats a `char[]` that the print format prints as an array as bytes. The kernel declares the
    /// data that a system call writes like strings (seen in 7.2's `sys_enter_write`).
    fn bytes_if_printed_so(&mut self, print: &str) {
        if let FieldKind::Located { element: element @ Element::Char, many: false, .. } = &mut self.kind
            && print.contains(&format!("__print_dynamic_array({}, 1)", self.name))
        {
            *element = Element::Integer(1);
        }
    }

    /// Returns the derived field for the message of a `trace_printk` or the trace marker.
    fn message() -> FieldFormat {
        FieldFormat {
            name: "message".to_owned(),
            type_name: "char".to_owned(),
            offset: 0,
            size: 0,
            signed: false,
            declared_array: false,
            kind: FieldKind::Message,
        }
    }

    /// Returns whether this decoder added the field: the `message` of `print`, `bprint` and
    /// `bputs`.
    pub fn is_derived(&self) -> bool {
        self.kind == FieldKind::Message
    }

    /// Returns whether the field's value is text.
    pub fn is_text(&self) -> bool {
        matches!(
            self.kind,
            FieldKind::Text
                | FieldKind::Message
                | FieldKind::Tail(Element::Char)
                | FieldKind::Located { element: Element::Char, many: false, .. }
        )
    }

    /// Returns whether the field is an array in the record itself.
    pub(crate) fn is_array(&self) -> bool {
        self.declared_array
    }

    /// Returns whether the field holds an address.
    pub fn is_pointer(&self) -> bool {
        self.kind == FieldKind::Pointer
    }
}

impl FieldKind {
    fn of(declaration: &Declaration<'_>, long_size: usize) -> FieldKind {
        let type_name = declaration.type_name;
        for (marker, relative) in [("__data_loc ", false), ("__rel_loc ", true)] {
            if let Some(rest) = type_name.strip_prefix(marker) {
                let element = element(rest.split('[').next().unwrap_or(rest), long_size);
                // An array of strings is `char[][2]`. The one string of a synthetic event has 8 bytes, of which
                // the last 4 mean nothing.
                return FieldKind::Located { relative, element, many: rest.contains("][") };
            }
        }
        if let Some(count) = declaration.array {
            let element = element(type_name, long_size);
            return match (declaration.size, element) {
                (0, element) => FieldKind::Tail(element),
                (_, Element::Char) => FieldKind::Text,
                (size, Element::Integer(bytes)) if size % bytes == 0 => FieldKind::Array { element: bytes },
                // A type whose name this decoder does not know: use the size and the count.
                (size, _) => match count.parse::<usize>() {
                    Ok(count) if count > 0 && matches!(size / count, 1 | 2 | 4 | 8) && size % count == 0 => {
                        FieldKind::Array { element: size / count }
                    }
                    _ => FieldKind::Opaque,
                },
            };
        }
        match declaration.size {
            _ if type_name.ends_with('*') => FieldKind::Pointer,
            1 | 2 | 4 | 8 => FieldKind::Integer { bits: declaration.bits },
            _ => FieldKind::Opaque,
        }
    }
}

/// Returns the kind of array element that a C type is.
fn element(type_name: &str, long_size: usize) -> Element {
    let words: Vec<&str> =
        type_name.split_whitespace().filter(|word| !matches!(*word, "const" | "volatile")).collect();
    match words.join(" ").as_str() {
        "char" => Element::Char,
        "u8" | "s8" | "__u8" | "__s8" | "uint8_t" | "int8_t" | "x8" | "unsigned char" | "signed char"
        | "bool" => Element::Integer(1),
        "u16" | "s16" | "__u16" | "__s16" | "uint16_t" | "int16_t" | "x16" | "short" | "unsigned short"
        | "__be16" | "__le16" => Element::Integer(2),
        "u32" | "s32" | "__u32" | "__s32" | "uint32_t" | "int32_t" | "x32" | "int" | "unsigned int"
        | "unsigned" | "pid_t" | "__be32" | "__le32" => Element::Integer(4),
        "u64" | "s64" | "__u64" | "__s64" | "uint64_t" | "int64_t" | "x64" | "long long"
        | "unsigned long long" | "__be64" | "__le64" => Element::Integer(8),
        "long" | "unsigned long" | "size_t" => Element::Integer(long_size),
        other if other.ends_with('*') => Element::Integer(long_size),
        _ => Element::Opaque,
    }
}
