//! An event as one line of text, in the shape of `trace-cmd report`.

use super::{Event, FieldFormat, Trace, Value, print::Printer};
use std::fmt::Write;

impl Trace {
    /// One event as a line without its end:
    /// `eventfd-44 [001] 4.207301888: efd_write: (ffff…) value=1 count=8`. Lines of a stack follow,
    /// each after a newline of its own.
    pub fn display(&self, event: &Event<'_>) -> String {
        let mut line = String::with_capacity(128);
        let time = if self.metadata().counts_nanoseconds() {
            format!("{:>5}.{:09}", event.time / 1_000_000_000, event.time % 1_000_000_000)
        } else {
            event.time.to_string()
        };
        let head = format!("{}-{}", event.comm(), event.pid);
        let _ =
            write!(line, "{head:>22} [{:03}] {time:>15}: {:<20} ", event.cpu, format!("{}:", event.name()));
        append_fields(event, &mut line);
        line.truncate(line.trim_end().len());
        line
    }
}

/// Appends what the event's print format makes of its fields, or the fields one by one.
fn append_fields(event: &Event<'_>, line: &mut String) {
    let start = line.len();
    let printed = event.format().printer().and_then(|printer: &Printer| printer.print(event, line));
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
