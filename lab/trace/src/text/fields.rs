//! The option `fields`: each field by its type, without the print format.

use super::{Source, line::Line};
use crate::{Event, FieldFormat};
use anyhow::{Result, bail};

/// Appends an event field by field.
pub(super) fn append(source: &Source<'_>, event: &Event<'_>, line: &mut Line) -> Result<()> {
    line.push(&format!("{}:", event.name()));
    let fields: Vec<_> = event.format().own_fields().iter().filter(|field| !field.is_derived()).collect();
    if fields.is_empty() {
        line.push("No fields found\n");
        return Ok(());
    }
    for field in fields {
        line.push(&format!(" {}=", field.name));
        append_field(source, event, field, line)?;
    }
    line.push("\n");
    Ok(())
}

fn append_field(source: &Source<'_>, event: &Event<'_>, field: &FieldFormat, line: &mut Line) -> Result<()> {
    let type_name = field.type_name.as_str();
    let Some(bytes) = event.data().get(field.offset..field.offset + field.size) else {
        line.push("<OVERFLOW>");
        return Ok(());
    };
    let relative = type_name.contains("__rel_loc");
    if relative || type_name.contains("__data_loc") {
        return located(source, event, field, relative, line);
    }
    let number = || bytes.iter().rev().fold(0, |number, &byte| (number << 8) | u64::from(byte));
    if field.is_array() && type_name.contains("char") {
        let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        line.push(&String::from_utf8_lossy(&bytes[..length]));
    } else if !field.is_array() && matches!(type_name, "char *" | "const char *") {
        let address = number();
        // The kernel does not follow a pointer to a program's memory.
        if address >> 63 == 0 {
            line.push(&format!("(0x{address:016x})"));
            return Ok(());
        }
        let Some(text) = source.metadata.printk_format(address) else {
            bail!("the lab does not know the string at {address:#x}, to which `{}` points", field.name)
        };
        line.push(&format!("(0x{address:016x}:{text})"));
    } else if event.group() == "ftrace" && matches!(field.name.as_str(), "ip" | "parent_ip") {
        line.printed(&source.manner().symbol(source.metadata.symbols(), number()));
    } else {
        line.printed(&integer(source, field, bytes.len(), number()));
    }
    Ok(())
}

/// Returns a number of so many bytes.
fn integer(source: &Source<'_>, field: &FieldFormat, size: usize, number: u64) -> String {
    // Since 6.15, an integer as long as an address is printed as one, and some are offsets.
    let symbolic = source.version >= (6, 15);
    let symbols = source.metadata.symbols();
    match size {
        1 => {
            let byte = number as u8;
            let shown = match byte {
                b' '..=b'~' => format!("'{}'", char::from(byte)),
                0xa0.. => "'\u{FFFD}'".to_owned(),
                _ => String::new(),
            };
            format!("{shown}({byte})")
        }
        2 => format!("{number:#x} ({number})"),
        4 => {
            let offset = symbolic && matches!(field.name.as_str(), "caller_offs" | "parent_offs");
            let start = offset.then(|| symbols.address("_stext")).flatten();
            let caller = start.map_or_else(String::new, |start| {
                format!("{} ", source.manner().symbol(symbols, start.wrapping_add(number)))
            });
            format!("{caller}{number:#x} ({})", number as u32 as i32)
        }
        8 if symbolic => format!("{} ({})", source.manner().symbol(symbols, number), number as i64),
        8 => format!("{number:#x} ({})", number as i64),
        _ => "<INVALID-SIZE>".to_owned(),
    }
}

/// Appends a string or an array that the record holds elsewhere.
fn located(
    source: &Source<'_>,
    event: &Event<'_>,
    field: &FieldFormat,
    relative: bool,
    line: &mut Line,
) -> Result<()> {
    let word = event.data().get(field.offset..).and_then(|bytes| bytes.first_chunk());
    let word = word.map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let (length, offset) = ((word >> 16) as usize, (word & 0xffff) as usize);
    let start = if relative { offset + field.offset + 4 } else { offset };
    let text = field.type_name.contains("char");
    // Since 6.6, of those that are not relative.
    if !text && !relative && source.version >= (6, 6) && field.type_name.contains("cpumask_t") {
        line.push("<INVALID-TYPE>");
        return Ok(());
    }
    let Some(bytes) = event.data().get(start..start + length) else {
        line.push("<OVERFLOW>");
        return Ok(());
    };
    if text {
        let printable = bytes.iter().all(|&byte| byte == 0 || (b' '..=b'~').contains(&byte));
        if !printable && source.version >= (6, 15) {
            bail!("the lab does not print strings with unprintable characters")
        }
        let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        line.push(&String::from_utf8_lossy(&bytes[..length]));
    } else {
        let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        line.push(&bytes.join(","));
    }
    Ok(())
}
