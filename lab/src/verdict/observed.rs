//! Events as expectations see them: those of a trace, and those of tests.

use crate::scenario::Literal;
use std::{
    borrow::Cow,
    fmt::{self, Write},
};
use trace::Value;

/// An event.
pub trait Observed: Sync {
    /// Returns a small number, unique to the group and name of the event.
    fn kind(&self) -> u16;
    /// Returns the name: `sched_switch`.
    fn name(&self) -> &str;
    /// Returns the group: `sched`.
    fn group(&self) -> &str;
    /// Returns the timestamp, in nanoseconds for most clocks.
    fn time(&self) -> u64;
    /// Returns the timestamp for display.
    fn stamp(&self) -> Stamp {
        Stamp { time: self.time(), nanoseconds: true }
    }
    /// Returns the CPU whose buffer it was in.
    fn cpu(&self) -> u32;
    /// Returns the PID of the task that was running.
    fn pid(&self) -> i32;
    /// Returns the name of that task.
    fn comm(&self) -> Cow<'_, str>;
    /// Returns the value of a field of its format, including common fields.
    fn field(&self, name: &str) -> Option<Value<'_>>;
    /// Returns the fields that are not common, in the order of its format.
    fn fields(&self) -> Vec<(&str, Value<'_>)>;
    /// Returns the symbol that contains an address, and the offset in it.
    fn symbol(&self, address: u64) -> Option<(&str, u64)>;
    /// Returns the number of bytes in the ring buffer.
    fn size(&self) -> usize;
}

/// The timestamp of an event: `12.345678` in seconds, or the count of a clock that does not count time.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    time: u64,
    nanoseconds: bool,
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.nanoseconds {
            true => write!(f, "{}.{:06}", self.time / 1_000_000_000, self.time / 1000 % 1_000_000),
            false => self.time.fmt(f),
        }
    }
}

impl Observed for trace::Event<'_> {
    fn kind(&self) -> u16 {
        self.format().id()
    }

    fn name(&self) -> &str {
        trace::Event::name(self)
    }

    fn group(&self) -> &str {
        trace::Event::group(self)
    }

    fn time(&self) -> u64 {
        self.time
    }

    fn stamp(&self) -> Stamp {
        Stamp { time: self.time, nanoseconds: self.metadata().counts_nanoseconds() }
    }

    fn cpu(&self) -> u32 {
        self.cpu
    }

    fn pid(&self) -> i32 {
        self.pid
    }

    fn comm(&self) -> Cow<'_, str> {
        trace::Event::comm(self)
    }

    fn field(&self, name: &str) -> Option<Value<'_>> {
        trace::Event::field(self, name)
    }

    fn fields(&self) -> Vec<(&str, Value<'_>)> {
        trace::Event::fields(self).collect()
    }

    fn symbol(&self, address: u64) -> Option<(&str, u64)> {
        let symbol = self.metadata().symbols().resolve(address)?;
        Some((symbol.name, symbol.offset))
    }

    fn size(&self) -> usize {
        // A record's header is one word.
        self.data().len() + 4
    }
}

/// Returns the value of a field of the event or, without one, of a field that every event has: `pid` of
/// sched_wakeup is the task that wakes, `common_pid` the one that was running.
pub(super) fn lookup<'a>(event: &'a (impl Observed + ?Sized), name: &str) -> Option<Value<'a>> {
    let value = event.field(name);
    if value.is_some() {
        return value;
    }
    Some(match name {
        "pid" | "common_pid" => Value::Signed(event.pid().into()),
        "cpu" | "common_cpu" => Value::Unsigned(event.cpu().into()),
        "comm" | "common_comm" => Value::Text(event.comm()),
        "time" => Value::Unsigned(event.time()),
        "event" => Value::Text(event.name().into()),
        "group" => Value::Text(event.group().into()),
        _ => return None,
    })
}

/// Copies a value, so that it outlives its event.
pub(super) fn literal(value: &Value<'_>) -> Literal {
    match value {
        Value::Signed(number) => Literal::Int((*number).into()),
        Value::Unsigned(number) => Literal::Int((*number).into()),
        Value::Text(text) => Literal::Text(text.to_string()),
        Value::Bytes(bytes) => Literal::List(bytes.iter().map(|byte| Literal::Int((*byte).into())).collect()),
        Value::List(list) => Literal::List(list.iter().map(literal).collect()),
    }
}

/// Returns whether the value of a field is the one in a scenario. The text for an address is its symbol.
pub(super) fn equals(event: &(impl Observed + ?Sized), value: &Value<'_>, expected: &Literal) -> bool {
    match (value, expected) {
        (Value::Text(text), Literal::Text(expected)) => text == expected,
        (Value::Signed(number), Literal::Int(expected)) => i128::from(*number) == *expected,
        (Value::Unsigned(number), Literal::Int(expected)) => i128::from(*number) == *expected,
        (Value::Unsigned(address), Literal::Text(symbol)) => {
            event.symbol(*address).is_some_and(|(name, _)| name == symbol)
        }
        (Value::List(list), Literal::List(expected)) => {
            list.len() == expected.len()
                && list.iter().zip(expected).all(|(value, expected)| equals(event, value, expected))
        }
        (Value::Bytes(bytes), Literal::List(expected)) => {
            let byte = |(byte, expected): (&u8, &Literal)| *expected == Literal::Int((*byte).into());
            bytes.len() == expected.len() && bytes.iter().zip(expected).all(byte)
        }
        _ => false,
    }
}

/// The maximum length of an event in a message, in characters.
const SHOWN: usize = 300;

/// Formats an event on one line, much like `trace`: `eventfd-90 [000] 12.345678: efd_ret: ret=8`.
pub(super) fn describe(event: &(impl Observed + ?Sized)) -> String {
    let comm = crate::words::excerpt(&event.comm(), 16);
    let mut line =
        format!("{comm}-{} [{:03}] {}: {}:", event.pid(), event.cpu(), event.stamp(), event.name());
    for (name, value) in event.fields() {
        let _ = write!(line, " {name}={}", show(event, &value));
        if line.len() > SHOWN {
            line.push_str(" …");
            break;
        }
    }
    line
}

/// Formats a value for messages, addresses with their symbols.
pub(super) fn show(event: &(impl Observed + ?Sized), value: &Value<'_>) -> String {
    match value {
        Value::Signed(number) => number.to_string(),
        Value::Unsigned(number) if *number >> 32 == 0 => number.to_string(),
        Value::Unsigned(address) => match event.symbol(*address) {
            Some((name, 0)) => name.to_owned(),
            Some((name, offset)) => format!("{name}+{offset:#x}"),
            None => format!("{address:#x}"),
        },
        Value::Text(text) => format!("\"{}\"", crate::words::excerpt(text, 100)),
        Value::Bytes(bytes) => {
            let shown: String = bytes.iter().take(32).map(|byte| format!("{byte:02x}")).collect();
            if bytes.len() > 32 { format!("{shown}…") } else { shown }
        }
        Value::List(list) => {
            let shown: Vec<_> = list.iter().take(16).map(|value| show(event, value)).collect();
            format!("[{}{}]", shown.join(", "), if list.len() > 16 { ", …" } else { "" })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clock_that_counts_time_has_seconds() {
        let check = |nanoseconds, expect: &str| {
            assert_eq!(Stamp { time: 12_000_345_678, nanoseconds }.to_string(), expect);
        };
        check(true, "12.000345");
        check(false, "12000345678");
    }
}
