//! One event, and the values of its fields, decoded on request.

use super::{
    format::{Element, EventFormat, FieldFormat, FieldKind},
    metadata::Metadata,
    print,
};
use std::{borrow::Cow, fmt};

/// One event, borrowed from the page it was decoded from.
#[derive(Clone, Copy)]
pub struct Event<'a> {
    /// Nanoseconds, or units of the trace clock if that does not count time (`counter`).
    pub time: u64,
    /// The CPU whose buffer the event was in.
    pub cpu: u32,
    /// The task that was running.
    pub pid: i32,
    format: &'a EventFormat,
    data: &'a [u8],
    metadata: &'a Metadata,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A signed integer.
    Signed(i64),
    /// An unsigned integer or an address.
    Unsigned(u64),
    /// A string, with invalid UTF-8 replaced by U+FFFD.
    Text(Cow<'a, str>),
    /// Uninterpreted bytes: a structure, or an integer of an odd size.
    Bytes(Cow<'a, [u8]>),
    /// The elements of an array.
    List(Vec<Value<'a>>),
}

impl Value<'_> {
    /// Returns the value as an unsigned number; a negative one as its 64-bit two's complement.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Value::Signed(number) => Some(*number as u64),
            Value::Unsigned(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the text of a string.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl<'a> Event<'a> {
    /// Creates an event. An unknown number gets the stand-in format of the metadata.
    #[inline]
    pub(crate) fn new(time: u64, cpu: u32, data: &'a [u8], metadata: &'a Metadata) -> Event<'a> {
        let id = data.first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes));
        let format = metadata.format_by_id(id);
        let pid = format
            .pid_at()
            .and_then(|at| data.get(at..)?.first_chunk())
            .map_or(-1, |bytes| i32::from_le_bytes(*bytes));
        Event { time, cpu, pid, format, data, metadata }
    }

    /// Returns the event's name: `sched_switch`; `unknown` if no format has its number.
    #[inline]
    pub fn name(&self) -> &'a str {
        self.format.name()
    }

    /// Returns its system: `sched`; `ftrace` for ftrace's own entries.
    #[inline]
    pub fn group(&self) -> &'a str {
        self.format.group()
    }

    /// Returns the name of the task, `<idle>` for pid 0, `<...>` if the kernel did not record it.
    pub fn comm(&self) -> Cow<'a, str> {
        Cow::Borrowed(self.metadata.comm(self.pid))
    }

    /// Returns `common_flags`: interrupts off, need-resched, in hard or soft interrupt.
    pub fn flags(&self) -> u8 {
        self.common_byte("common_flags")
    }

    /// Returns `common_preempt_count`; since 6.2 its upper half is the migrate-disable depth.
    pub fn preempt_count(&self) -> u8 {
        self.common_byte("common_preempt_count")
    }

    fn common_byte(&self, name: &str) -> u8 {
        let field = self.format.common_fields().iter().find(|field| field.name == name);
        field.and_then(|field| self.data.get(field.offset)).copied().unwrap_or(0)
    }

    /// Returns the format of the event.
    #[inline]
    pub fn format(&self) -> &'a EventFormat {
        self.format
    }

    /// Returns the metadata of the whole trace.
    pub fn metadata(&self) -> &'a Metadata {
        self.metadata
    }

    /// Returns the record, including the common fields.
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Returns the value of the field called `name`, including common fields; `None` if there is no
    /// such field or the record is too short for it.
    pub fn field(&self, name: &str) -> Option<Value<'a>> {
        self.value(self.format.field(name)?)
    }

    /// Returns the event's own fields in the order of its format, except those that its record is
    /// too short for.
    pub fn fields(&self) -> impl Iterator<Item = (&'a str, Value<'a>)> + use<'a> {
        let event = *self;
        self.format
            .own_fields()
            .iter()
            .filter_map(move |field| Some((field.name.as_str(), event.value(field)?)))
    }

    /// Returns the value of a field that was looked up in the format.
    pub fn value(&self, field: &FieldFormat) -> Option<Value<'a>> {
        let bytes = |from: usize, length: usize| self.data.get(from..from.checked_add(length)?);
        match field.kind {
            FieldKind::Integer { bits } => {
                let value = integer(bytes(field.offset, field.size)?, field.signed);
                match bits {
                    None => value,
                    Some(bits) => Some(low_bits(&value?, bits)),
                }
            }
            FieldKind::Pointer => {
                integer(bytes(field.offset, field.size)?, false).or_else(|| self.opaque(field))
            }
            FieldKind::Text => Some(text(bytes(field.offset, field.size)?)),
            FieldKind::Array { element } => self.array(field, element),
            FieldKind::Tail(element) => Some(elements(self.data.get(field.offset..)?, element, field.signed)),
            FieldKind::Located { relative, element, many } => self.located(field, relative, element, many),
            FieldKind::Message => self.message(),
            FieldKind::Opaque => self.opaque(field),
        }
    }

    /// Returns the message of a `trace_printk` or the trace marker, without the trailing newline.
    fn message(&self) -> Option<Value<'a>> {
        let address = |name: &str| self.field(name)?.as_u64();
        match self.format.name() {
            "bprint" => {
                let arguments = self.data.get(self.format.field("buf")?.offset..)?;
                print::bprint(self, address("fmt")?, arguments).map(|text| Value::Text(Cow::Owned(text)))
            }
            "bputs" => {
                let text = self.metadata.printk_format(address("str")?)?;
                Some(print::line(Value::Text(Cow::Borrowed(text))))
            }
            _ => self.field("buf").map(print::line),
        }
    }

    /// Returns the size in bytes of the data of a dynamic array.
    pub(crate) fn dynamic_size(&self, name: &str) -> Option<u32> {
        let field = self.format.field(name)?;
        let FieldKind::Located { .. } = field.kind else { return None };
        let word = u32::from_le_bytes(*self.data.get(field.offset..)?.first_chunk()?);
        Some(word >> 16)
    }

    fn opaque(&self, field: &FieldFormat) -> Option<Value<'a>> {
        let end = field.offset.checked_add(field.size)?;
        Some(Value::Bytes(Cow::Borrowed(self.data.get(field.offset..end)?)))
    }

    fn array(&self, field: &FieldFormat, element: usize) -> Option<Value<'a>> {
        // The format of a kernel stack declares room for eight callers, but the record holds as
        // many as its `size` says (`__stack_array` in kernel/trace/trace_entries.h).
        if self.format.group() == "ftrace" && self.format.name() == "kernel_stack" && field.name == "caller" {
            let rest = self.data.get(field.offset..)?;
            let size = self.field("size").and_then(|size| size.as_u64()).unwrap_or(u64::MAX);
            let length = usize::try_from(size).ok().and_then(|size| size.checked_mul(element));
            let rest = length.and_then(|length| rest.get(..length)).unwrap_or(rest);
            return Some(elements(rest, Element::Integer(element), field.signed));
        }
        let end = field.offset.checked_add(field.size)?;
        Some(elements(self.data.get(field.offset..end)?, Element::Integer(element), field.signed))
    }

    fn located(
        &self,
        field: &FieldFormat,
        relative: bool,
        element: Element,
        many: bool,
    ) -> Option<Value<'a>> {
        let one = |at: usize| -> Option<Value<'a>> {
            let word = u32::from_le_bytes(*self.data.get(at..)?.first_chunk()?);
            let (length, offset) = ((word >> 16) as usize, (word & 0xffff) as usize);
            let start = if relative { offset + at + 4 } else { offset };
            Some(elements(self.data.get(start..start + length)?, element, field.signed))
        };
        if !many {
            return one(field.offset);
        }
        let end = field.offset.checked_add(field.size)?;
        (field.offset..end).step_by(4).map(one).collect::<Option<Vec<_>>>().map(Value::List)
    }
}

impl fmt::Debug for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct(self.name());
        shown.field("time", &self.time).field("cpu", &self.cpu).field("pid", &self.pid);
        for (name, value) in self.fields() {
            shown.field(name, &value);
        }
        shown.finish()
    }
}

/// Reads an integer of 1, 2, 4 or 8 bytes; `None` for other sizes.
#[inline]
fn integer<'a>(bytes: &[u8], signed: bool) -> Option<Value<'a>> {
    let raw = match *bytes {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_le_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => return None,
    };
    if !signed {
        return Some(Value::Unsigned(raw));
    }
    let unused = 64 - 8 * bytes.len() as u32;
    Some(Value::Signed((raw << unused) as i64 >> unused))
}

fn low_bits<'a>(value: &Value<'a>, bits: u32) -> Value<'a> {
    let unused = 64 - bits.clamp(1, 64);
    match value {
        Value::Signed(number) => Value::Signed(number << unused >> unused),
        Value::Unsigned(number) => Value::Unsigned(number << unused >> unused),
        other => other.clone(),
    }
}

/// Returns the bytes up to the first NUL, as text.
fn text(bytes: &[u8]) -> Value<'_> {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    Value::Text(String::from_utf8_lossy(&bytes[..end]))
}

fn elements(bytes: &[u8], element: Element, signed: bool) -> Value<'_> {
    match element {
        Element::Char => text(bytes),
        Element::Integer(size) => {
            Value::List(bytes.chunks_exact(size.max(1)).filter_map(|chunk| integer(chunk, signed)).collect())
        }
        Element::Opaque => Value::Bytes(Cow::Borrowed(bytes)),
    }
}

#[cfg(test)]
#[path = "event_tests.rs"]
mod tests;
