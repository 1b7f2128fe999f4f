//! Compares the lab's reading of a trace with `trace-cmd report`: count, order, time and every field
//! of every event.

use anyhow::{Context, Result, bail, ensure};
use std::{ops::ControlFlow, path::Path, process::Command};
use trace::{Event, FieldFormat, Item, Trace, Value};

/// Compares a whole file and returns the number of its events.
pub(crate) fn compare(file: &Path) -> Result<u64> {
    let report = Command::new("trace-cmd")
        .args(["report", "-N", "-R", "-t", "-i"])
        .arg(file)
        .output()
        .context("cannot run trace-cmd")?;
    ensure!(report.status.success(), "trace-cmd failed: {}", String::from_utf8_lossy(&report.stderr));
    ensure!(report.stderr.is_empty(), "trace-cmd warned: {}", String::from_utf8_lossy(&report.stderr));
    let text = String::from_utf8_lossy(&report.stdout);
    let mut lines = text.lines().skip_while(|line| line.starts_with("cpus=")).enumerate();
    let trace = Trace::open(file)?;
    let mut events = 0u64;
    trace.for_each(|item| {
        let expect = match &item {
            // trace-cmd knows only losses that a page records, at the first event after them.
            Item::Loss(loss) if loss.before.is_none() => return Ok(ControlFlow::Continue(())),
            Item::Loss(loss) => match loss.lost {
                Some(lost) => format!("CPU:{} [{lost} EVENTS DROPPED]", loss.cpu),
                None => format!("CPU:{} [EVENTS DROPPED]", loss.cpu),
            },
            Item::Event(event) => trace.display(event),
        };
        let (number, line) = lines.next().with_context(|| format!("trace-cmd ends before: {expect}"))?;
        match &item {
            Item::Loss(_) => ensure!(line == expect, "line {number}: `{line}` is not `{expect}`"),
            Item::Event(event) => {
                events += 1;
                same(&trace, event, line)
                    .with_context(|| format!("line {number}\n  trace-cmd: {line}\n  decoded:   {expect}"))?;
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if let Some((number, line)) = lines.next() {
        bail!("line {number} of trace-cmd was not decoded: {line}");
    }
    Ok(events)
}

/// Compares an event with its line.
fn same(trace: &Trace, event: &Event<'_>, line: &str) -> Result<()> {
    let (comm, pid, cpu, time) = (event.comm(), event.pid, event.cpu, event.time);
    // If an event's format was removed before the trace was read, trace-cmd does not even print the task.
    if event.group().is_empty() && event.name() == "unknown" {
        ensure!(line.contains("[UNKNOWN EVENT]"), "trace-cmd knows this event");
        return Ok(());
    }
    let rest = line
        .strip_prefix(&format!("{comm:>16}-{pid:<5} [{cpu:03}] "))
        .context("task, pid or CPU differ")?
        .trim_start();
    // trace-cmd 3.1.6 treats `boot` as a clock that does not count nanoseconds.
    let seconds = format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000);
    let mut rest = [seconds, time.to_string()]
        .iter()
        .find_map(|time| rest.strip_prefix(&format!("{time}: ")))
        .with_context(|| format!("the time is {time}"))?
        .strip_prefix(&format!("{}:", event.name()))
        .context("the name differs")?
        .trim_start();
    for field in event.format().own_fields().iter().filter(|field| !field.is_derived()) {
        // trace-cmd 3.1.6 stops printing an event at an array of strings.
        if field.type_name.contains("[][") {
            break;
        }
        let value = event.value(field).with_context(|| format!("`{}` is not in the record", field.name))?;
        let after = rest
            .strip_prefix(&format!("{}=", field.name))
            .with_context(|| format!("`{}` is not in the line", field.name))?;
        rest = behind(trace, event, field, &value, after)
            .with_context(|| format!("`{}` is {value:?}", field.name))?
            .trim_start();
    }
    ensure!(rest.is_empty(), "the line has more: `{rest}`");
    Ok(())
}

/// Returns the text after the value at the start of `text`, or `None` if that is a different value.
/// trace-cmd takes the conversion of a field from the print format if it finds one there, so the same
/// value has several forms.
fn behind<'a>(
    trace: &Trace,
    event: &Event<'_>,
    field: &FieldFormat,
    value: &Value<'_>,
    text: &'a str,
) -> Option<&'a str> {
    let texts = match value {
        Value::Signed(_) | Value::Unsigned(_) => {
            let text = text.trim_start();
            let (word, rest) = text.split_at(text.find(' ').unwrap_or(text.len()));
            if is_number(field, value, word) {
                return Some(rest);
            }
            names(trace, field, value)
        }
        // A string that could not be read has no bytes, and trace-cmd prints whatever is at its offset.
        Value::Text(said) if said.is_empty() && located_length(event, field) == Some(0) => {
            return Some(behind_garbage(text));
        }
        Value::Text(text) if text.trim_end_matches('\n').contains(char::is_control) => {
            // trace-cmd may print it as the bytes of its array.
            vec![text.trim_end_matches('\n').to_owned(), array(&[text.as_bytes(), &[0]].concat())]
        }
        Value::Text(text) => vec![text.trim_end_matches('\n').to_owned()],
        // trace-cmd prints the word with the location of the bytes.
        Value::Bytes(_) => located(event, field).into_iter().collect(),
        Value::List(items) => lists(event, field, items),
    };
    texts
        .iter()
        .filter_map(|value| text.strip_prefix(value.as_str()))
        .map(|rest| if field.name == "caller" { behind_stack(rest) } else { rest })
        .find(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// Returns whether `word` is the number, signed or unsigned, decimal or hexadecimal.
fn is_number(field: &FieldFormat, value: &Value<'_>, word: &str) -> bool {
    let bits = value.as_u64().unwrap_or(0);
    let whole = bits & u64::MAX.checked_shr(64 - 8 * field.size.clamp(1, 8) as u32).unwrap_or(0);
    let hexadecimal = word.strip_prefix("0x").unwrap_or(word);
    let signed = matches!(value, Value::Signed(_)) && word.parse() == Ok(bits as i64);
    signed || word.parse() == Ok(whole) || u64::from_str_radix(hexadecimal, 16) == Ok(whole)
}

/// Returns other forms of a number: a character, a symbol, a string of the kernel.
fn names(trace: &Trace, field: &FieldFormat, value: &Value<'_>) -> Vec<String> {
    let bits = value.as_u64().unwrap_or(0);
    let mut texts = Vec::new();
    if bits == 0 {
        texts.push("(nil)".to_owned());
    }
    if field.size == 1 {
        texts.push(char::from(bits as u8).to_string());
    }
    if let Some(symbol) = trace.metadata().symbols().resolve(bits) {
        texts.push(symbol.name.to_owned());
        texts.push(format!("{}+{:#x}", symbol.name, symbol.offset));
    }
    texts.extend(trace.metadata().printk_format(bits).map(|text| text.trim_end_matches('\n').to_owned()));
    texts
}

fn lists(event: &Event<'_>, field: &FieldFormat, items: &[Value<'_>]) -> Vec<String> {
    let bytes: Vec<u8> = elements(event, field, items);
    if event.name() == "kernel_stack" {
        return stack(&bytes, field.size);
    }
    let mut texts = vec![array(&bytes)];
    // trace-cmd does not print an array that extends to the end of its record.
    if field.size == 0 {
        texts.push("ARRAY[]".to_owned());
    }
    let text: Vec<u8> = bytes.iter().copied().take_while(|&byte| byte != 0).collect();
    texts.extend(String::from_utf8(text));
    texts
}

fn located(event: &Event<'_>, field: &FieldFormat) -> Option<String> {
    let word = event.data().get(field.offset..)?.first_chunk()?;
    Some(u32::from_le_bytes(*word).to_string())
}

/// Returns the bytes of a list, by joining its elements.
fn elements(event: &Event<'_>, field: &FieldFormat, items: &[Value<'_>]) -> Vec<u8> {
    let size = match located_length(event, field) {
        Some(length) => length / items.len().max(1),
        None if field.size == 0 => event.data().len().saturating_sub(field.offset) / items.len().max(1),
        // A kernel stack may be longer or shorter than its format says.
        None if event.name() == "kernel_stack" => 8,
        None => field.size / items.len().max(1),
    };
    let bytes = |item: &Value<'_>| item.as_u64().unwrap_or(0).to_le_bytes()[..size.min(8)].to_vec();
    items.iter().flat_map(bytes).collect()
}

fn located_length(event: &Event<'_>, field: &FieldFormat) -> Option<usize> {
    let dynamic = ["__data_loc", "__rel_loc"].iter().any(|mark| field.type_name.starts_with(mark));
    let word = event.data().get(field.offset..)?.first_chunk()?;
    dynamic.then_some((u32::from_le_bytes(*word) >> 16) as usize)
}

fn array(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("ARRAY[{}]", bytes.join(", "))
}

/// Returns the text from the first ` NAME=` on, or an empty string.
fn behind_garbage(text: &str) -> &str {
    let is_field = |&(at, _): &(usize, &str)| {
        let name = text[at + 1..].split('=').next().unwrap_or_default();
        name.len() < text.len() - at - 1 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    text.match_indices(' ').find(is_field).map_or("", |(at, _)| &text[at..])
}

/// Skips the excess frames of a kernel stack: trace-cmd always prints eight, and takes the missing ones of a
/// shorter stack from the bytes after it.
fn behind_stack(rest: &str) -> &str {
    rest.strip_prefix(", ").and_then(|rest| rest.split_once(']')).map_or(rest, |(_, rest)| rest)
}

fn stack(bytes: &[u8], shown: usize) -> Vec<String> {
    if bytes.len() >= shown {
        return vec![array(&bytes[..shown])];
    }
    vec![array(bytes).trim_end_matches(']').to_owned()]
}
