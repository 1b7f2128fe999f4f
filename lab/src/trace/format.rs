//! The `format` files: what an event's record holds, and where.
//!
//! A format is data from the guest, so nothing in it is trusted: sizes and offsets are capped here
//! and checked against every record when a field is read.

use super::{
    print::{self, Printed, Printer, Table},
    text::Declaration,
};
use anyhow::{Context, Result, bail};
use std::sync::OnceLock;

/// The most fields a format may have.
const FIELDS_MAX: usize = 1024;
/// The largest offset or size of a field: a record is no larger than a page.
const EXTENT_MAX: usize = super::page::SUB_BUFFER_MAX;

/// One event of the kernel: its name, number, fields and how it wants to be printed.
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
    /// Read on first use: only those who print need it.
    printer: OnceLock<Option<Printer>>,
    pid_at: Option<usize>,
}

/// One field of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldFormat {
    /// Its name, as in `prev_comm`.
    pub name: String,
    /// Its C type as the kernel wrote it, without the array behind the name.
    pub type_name: String,
    /// Bytes from the start of the record.
    pub offset: usize,
    /// Bytes; 0 for an array that ends with its record.
    pub size: usize,
    /// Whether the kernel calls it signed.
    pub signed: bool,
    pub(crate) kind: FieldKind,
}

/// How the bytes of a field are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldKind {
    /// An integer of 1, 2, 4 or 8 bytes; with `bits`, only its lowest ones.
    Integer { bits: Option<u32> },
    /// An address: an integer printed in hexadecimal.
    Pointer,
    /// Characters up to the first NUL, or to the end of the field.
    Text,
    /// Elements of this many bytes, side by side.
    Array { element: usize },
    /// As above, but from the field's offset to the end of the record.
    Tail(Element),
    /// Words that say where in the record the data lie: length in the upper half, offset in the
    /// lower, relative to the end of the word for `__rel_loc`.
    Located { relative: bool, element: Element, many: bool },
    /// The text of a `print`, `bprint` or `bputs` entry, which the record holds in pieces.
    Message,
    /// A structure, or whatever else has no reading.
    Opaque,
}

/// What a dynamic array is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    /// Characters: the array is a string.
    Char,
    /// Integers of so many bytes.
    Integer(usize),
    /// Something without a reading.
    Opaque,
}

impl EventFormat {
    /// Reads the text of a `format` file. `group` is the directory it stood in; `long_size` is
    /// the bytes of the kernel's `long`.
    pub fn parse(group: &str, text: &str, long_size: usize) -> Result<EventFormat> {
        // Elements of no bytes would fill no array.
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
                        format!("the event number `{}` is not one of 16 bits", rest.trim())
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

    /// The stand-in for a record whose number no format claims: only its common fields are known.
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

    /// The event's name: `sched_switch`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The system the event belongs to: `sched`; `ftrace` for ftrace's own entries.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// The number in the record's `common_type`.
    pub fn id(&self) -> u16 {
        self.id
    }

    /// Every field, the common ones first.
    pub fn fields(&self) -> &[FieldFormat] {
        &self.fields
    }

    /// The fields that are the event's own.
    pub fn own_fields(&self) -> &[FieldFormat] {
        &self.fields[self.common..]
    }

    /// The fields every event has: type, flags, preempt count, pid.
    pub fn common_fields(&self) -> &[FieldFormat] {
        &self.fields[..self.common]
    }

    /// The field called `name`, common ones included.
    #[inline]
    pub fn field(&self, name: &str) -> Option<&FieldFormat> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The print format, from the first quote to the end.
    pub fn print_format(&self) -> &str {
        &self.print
    }

    /// The `__print_symbolic` table that the print format applies to `field`.
    pub fn symbolic(&self, field: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.field() == field && table.kind() == Printed::Symbolic)
    }

    /// The `__print_flags` table that the print format applies to `field`.
    pub fn flags(&self, field: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.field() == field && table.kind() == Printed::Flags)
    }

    /// What turns a record into text; `None` where the print format goes beyond this decoder.
    pub(crate) fn printer(&self) -> Option<&Printer> {
        self.printer.get_or_init(|| Printer::new(&self.print)).as_ref()
    }

    /// Where `common_pid` lies.
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
            kind: FieldKind::of(declaration, long_size),
        })
    }

    /// What a system call was given to write is declared as `char[]`, as its strings are (seen in
    /// 7.2's `sys_enter_write`); only the print format tells that these are bytes.
    fn bytes_if_printed_so(&mut self, print: &str) {
        if let FieldKind::Located { element: element @ Element::Char, many: false, .. } = &mut self.kind
            && print.contains(&format!("__print_dynamic_array({}, 1)", self.name))
        {
            *element = Element::Integer(1);
        }
    }

    /// The field that stands for what a `trace_printk` or the trace marker wrote.
    fn message() -> FieldFormat {
        FieldFormat {
            name: "message".to_owned(),
            type_name: "char".to_owned(),
            offset: 0,
            size: 0,
            signed: false,
            kind: FieldKind::Message,
        }
    }

    /// Whether the field was added by this decoder: the `message` of `print`, `bprint` and `bputs`.
    pub fn is_derived(&self) -> bool {
        self.kind == FieldKind::Message
    }

    /// Whether the field's value is text.
    pub fn is_text(&self) -> bool {
        matches!(
            self.kind,
            FieldKind::Text
                | FieldKind::Message
                | FieldKind::Tail(Element::Char)
                | FieldKind::Located { element: Element::Char, many: false, .. }
        )
    }

    /// Whether the field holds an address.
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
                return FieldKind::Located { relative, element, many: declaration.size > 4 };
            }
        }
        if let Some(count) = declaration.array {
            let element = element(type_name, long_size);
            return match (declaration.size, element) {
                (0, element) => FieldKind::Tail(element),
                (_, Element::Char) => FieldKind::Text,
                (size, Element::Integer(bytes)) if size % bytes == 0 => FieldKind::Array { element: bytes },
                // A type this decoder does not know by name: the size and the count tell.
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

/// What a C type is as the element of an array.
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
