//! An event as one line of text, in the format of `trace-cmd report`.

use super::{
    Event, FieldFormat, Symbols, Trace, Value,
    print::{Manner, Printer},
};
use std::fmt::Write;

impl Trace {
    /// Returns an event as a line without a trailing newline: `eventfd-44 [001] 4.207301888:
    /// efd_write: (ffff…) value=1 count=8`. The frames of a stack follow, each after a newline.
    pub fn display(&self, event: &Event<'_>) -> String {
        let mut line = String::with_capacity(128);
        let time = if self.metadata().counts_nanoseconds() {
            format!("{:>5}.{:09}", event.time / 1_000_000_000, event.time % 1_000_000_000)
        } else {
            event.time.to_string()
        };
        let (comm, pid, cpu) = (event.comm(), event.pid, event.cpu);
        let name = format!("{}:", event.name());
        let _ = write!(line, "{comm:>16}-{pid:<5} [{cpu:03}] {time}: {name:<21} ");
        append_fields(event, &mut line);
        line.truncate(line.trim_end().len());
        line
    }

    /// Returns the part of [`display`](Trace::display) after the event's name.
    pub fn message(&self, event: &Event<'_>) -> String {
        let mut text = String::with_capacity(96);
        append_fields(event, &mut text);
        text.truncate(text.trim_end().len());
        text
    }
}

/// Appends a stack frame by frame, because its print format always has eight frames.
fn append_stack(event: &Event<'_>, symbols: &Symbols, line: &mut String) -> Option<()> {
    let Value::List(frames) = event.field("caller")? else { return None };
    line.push_str("<stack trace>");
    for address in frames.iter().filter_map(Value::as_u64).take_while(|&address| address != 0) {
        match symbols.resolve(address) {
            Some(symbol) => write!(line, "\n => {symbol} ({address:x})").ok()?,
            None => write!(line, "\n => {address:#x}").ok()?,
        }
    }
    Some(())
}

/// Appends the fields formatted by the event's print format, or else one by one.
fn append_fields(event: &Event<'_>, line: &mut String) {
    let start = line.len();
    let own = (event.group() == "ftrace").then(|| event.name());
    let symbols = || event.metadata().symbols();
    let done = match own {
        Some("kernel_stack" | "user_stack") => append_stack(event, symbols(), line),
        Some("print" | "bprint" | "bputs") => append_message(event, symbols(), line),
        _ => None,
    };
    if done.is_some() {
        return;
    }
    line.truncate(start);
    let printed =
        event.format().printer().and_then(|printer: &Printer| printer.print(event, Manner::Report, line));
    if printed.is_some() {
        return;
    }
    line.truncate(start);
    for field in event.format().own_fields() {
        let Some(value) = event.value(field) else { continue };
        let _ = write!(line, "{}{}=", if line.len() == start { "" } else { " " }, field.name);
        append_value(field, &value, line);
    }
}

/// Appends the origin of a message and its text.
fn append_message(event: &Event<'_>, symbols: &Symbols, line: &mut String) -> Option<()> {
    let message = event.field("message")?;
    let address = event.field("ip")?.as_u64()?;
    match symbols.resolve(address) {
        Some(symbol) => write!(line, "{}: {}", symbol.name, message.as_text()?).ok(),
        None => write!(line, "{address:#x}: {}", message.as_text()?).ok(),
    }
}

fn append_value(field: &FieldFormat, value: &Value<'_>, line: &mut String) {
    let _ = match value {
        Value::Unsigned(number) if field.is_pointer() => write!(line, "{number:#x}"),
        Value::Signed(number) => write!(line, "{number}"),
        Value::Unsigned(number) => write!(line, "{number}"),
        Value::Text(text) => write!(line, "{text}"),
        Value::Bytes(bytes) => bytes.iter().try_for_each(|byte| write!(line, "{byte:02x}")),
        Value::List(items) => {
            line.push('{');
            for (number, item) in items.iter().enumerate() {
                if number > 0 {
                    line.push(',');
                }
                append_value(field, item, line);
            }
            line.push('}');
            Ok(())
        }
    };
}
