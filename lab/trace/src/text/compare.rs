//! Compares text with the kernel's, and fills the gaps.

use super::line::{Line, Part, Since};
use crate::{Event, Value};
use std::{collections::HashMap, fmt::Write};

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The number of events of the trace that the text must have.
    pub events: usize,
    /// The number of lines that were compared.
    pub lines: usize,
    /// The first difference.
    pub difference: Option<Difference>,
    /// Whether the text was cut before its end. All that there is of it is the same.
    pub cut: bool,
}

/// The first line that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its number in the kernel's text, from 1.
    pub line: usize,
    /// The kernel's line; `None` at the end of its text.
    pub kernel: Option<String>,
    /// The line as it follows from the ring buffer; `None` at the end of the events.
    pub expected: Option<String>,
    /// The event with its fields, if it is the text of one.
    pub event: Option<String>,
}

/// A comparison in progress.
pub(super) struct Comparer<'t> {
    text: &'t [u8],
    at: usize,
    /// Whether the end of the text is missing.
    cut: bool,
    ended: bool,
    difference: Option<Difference>,
    hashes: HashMap<u64, [u8; 16]>,
    addresses: HashMap<[u8; 16], u64>,
    /// The times between which the buffer was last reset.
    reset: (i128, i128),
}

impl<'t> Comparer<'t> {
    pub(super) fn new(text: &'t [u8], cut: bool) -> Comparer<'t> {
        Comparer {
            text,
            at: 0,
            cut,
            ended: false,
            difference: None,
            hashes: HashMap::new(),
            addresses: HashMap::new(),
            reset: (i128::MIN, i128::MAX),
        }
    }

    /// Takes the next text, that of `event`. Returns whether it is what the kernel printed.
    pub(super) fn take(&mut self, line: &Line, event: Option<&Event<'_>>) -> bool {
        let start = self.at;
        let mut shown = Vec::new();
        for (index, part) in line.parts.iter().enumerate() {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let (length, whole) = match part {
                Part::Bytes(bytes) => {
                    let same = rest.iter().zip(bytes).take_while(|(one, other)| one == other).count();
                    (same, same == bytes.len())
                }
                Part::Hashed(address) => gap(self.hash(rest, *address)),
                Part::Size => gap(size(rest)),
                Part::Cpu(online) => gap(cpu(rest, *online)),
                Part::Since(time, form) => gap(self.since(rest, *time, *form)),
            };
            self.at += length;
            if !whole && self.is_cut_here() {
                self.ended = true;
                return false;
            }
            if !whole {
                line.parts[index..].iter().for_each(|part| show(part, &mut shown));
                self.differ(Some((start, &shown)), event);
                return false;
            }
            match part {
                Part::Bytes(bytes) => shown.extend_from_slice(bytes),
                _ => shown.extend_from_slice(&rest[..length]),
            }
        }
        true
    }

    /// Returns whether the text was cut in the line that is compared.
    fn is_cut_here(&self) -> bool {
        let rest = &self.text[self.at..];
        self.cut && rest.len() < CUT_MAX && !rest.contains(&b'\n')
    }

    /// Notes the first difference. `expected` is the text that should follow a place in the kernel's.
    fn differ(&mut self, expected: Option<(usize, &[u8])>, event: Option<&Event<'_>>) {
        let is_newline: fn(&u8) -> bool = |&byte| byte == b'\n';
        let begin = self.text[..self.at].iter().rposition(is_newline).map_or(0, |at| at + 1);
        let length = self.text[begin..].iter().position(is_newline);
        let line = &self.text[begin..length.map_or(self.text.len(), |length| begin + length)];
        let expected = expected.map(|(start, text)| {
            let done = self.text[start..self.at].iter().filter(|byte| is_newline(byte)).count();
            let line = text.split(is_newline).nth(done).unwrap_or_default();
            let before = if done == 0 { &self.text[begin..start] } else { &[] };
            printable(&[before, line].concat())
        });
        self.difference = Some(Difference {
            line: self.text[..begin].iter().filter(|byte| is_newline(byte)).count() + 1,
            kernel: (begin < self.text.len()).then(|| printable(line)),
            expected,
            event: event.map(fields),
        });
    }

    /// Takes a hash. Each address has one, and no two the same.
    fn hash(&mut self, rest: &[u8], address: u64) -> Option<usize> {
        let found: [u8; 16] = *rest.first_chunk()?;
        // Before it has random numbers, the kernel prints no hash (up to 6.1).
        if found == *b"(____ptrval____)" {
            return Some(found.len());
        }
        // The hash is 32 bits; the upper half is zero.
        let is_hash = found.starts_with(b"00000000") && found.iter().all(u8::is_ascii_hexdigit);
        let same_hash = *self.hashes.entry(address).or_insert(found) == found;
        let same_address = *self.addresses.entry(found).or_insert(address) == address;
        (is_hash && same_hash && same_address).then_some(found.len())
    }

    /// Takes a time since the buffer was last reset, which is the same for all events.
    fn since(&mut self, rest: &[u8], time: u64, form: Since) -> Option<usize> {
        let spaces = rest.iter().take_while(|&&byte| byte == b' ').count();
        let digits = |from: usize| rest[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = |from: usize, length: usize| -> Option<i128> {
            if length > DIGITS_MAX {
                return None;
            }
            std::str::from_utf8(rest.get(from..from + length)?).ok()?.parse().ok()
        };
        let whole = digits(spaces);
        let (value, length, unit) = match form {
            Since::Millis => {
                let point = spaces + whole;
                let fraction = (rest.get(point) == Some(&b'.')).then(|| digits(point + 1))?;
                if spaces > 0 || fraction != 3 {
                    return None;
                }
                (number(0, whole)? * 1000 + number(point + 1, 3)?, point + 4, 1000)
            }
            Since::UnitsBare => (number(spaces, whole)?, spaces + whole, 1),
            Since::Micros => (number(spaces, whole)?, spaces + whole, 1000),
            Since::Units => (number(spaces, whole)?, spaces + whole, 1),
        };
        let padded = matches!(form, Since::Micros | Since::Units);
        if padded && spaces != 4_usize.saturating_sub(whole) || !padded && spaces > 0 {
            return None;
        }
        // The time since the reset, rounded to a unit, is `value`.
        let half = unit / 2;
        let earliest = i128::from(time) - (value * unit + (unit - half) - 1);
        let latest = i128::from(time) - (value * unit - half);
        self.reset = (self.reset.0.max(earliest), self.reset.1.min(latest));
        (self.reset.0 <= self.reset.1).then_some(length)
    }

    /// Returns the result, after the text of all events.
    pub(super) fn finish(mut self, events: usize) -> Comparison {
        if self.difference.is_none() && !self.ended && self.at < self.text.len() {
            self.differ(None, None);
        }
        let lines = self.text[..self.at].iter().filter(|&&byte| byte == b'\n').count();
        Comparison { events, lines, difference: self.difference, cut: self.ended || self.cut }
    }
}

/// The maximum number of digits of a number of 64 bits.
const DIGITS_MAX: usize = 20;

/// The maximum length of the last line of a text that was cut.
const CUT_MAX: usize = 4096;

/// Takes the number of a CPU.
fn cpu(rest: &[u8], online: u32) -> Option<usize> {
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number: u32 = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    (number < online).then_some(digits)
}

/// Takes a size.
fn size(rest: &[u8]) -> Option<usize> {
    let digits = rest.strip_prefix(b"0x")?.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    (digits > 0).then_some(digits + 2)
}

/// Returns an event with its fields.
fn fields(event: &Event<'_>) -> String {
    let mut out = format!("{}:{} cpu={} time={}", event.group(), event.name(), event.cpu, event.time);
    for (name, value) in event.fields() {
        let _ = match value {
            Value::Signed(number) => write!(out, " {name}={number}"),
            Value::Unsigned(number) if number > u64::from(u32::MAX) => write!(out, " {name}={number:#x}"),
            Value::Unsigned(number) => write!(out, " {name}={number}"),
            Value::Text(text) => write!(out, " {name}={}", printable(text.as_bytes())),
            other => write!(out, " {name}={other:?}"),
        };
    }
    out
}

/// Returns the length of a gap that was filled, and whether it was.
fn gap(taken: Option<usize>) -> (usize, bool) {
    (taken.unwrap_or(0), taken.is_some())
}

/// Appends a part as a message shows it.
fn show(part: &Part, out: &mut Vec<u8>) {
    match part {
        Part::Bytes(bytes) => out.extend_from_slice(bytes),
        Part::Hashed(address) => out.extend_from_slice(format!("<hash of {address:#x}>").as_bytes()),
        Part::Size => out.extend_from_slice(b"<size>"),
        Part::Cpu(_) => out.extend_from_slice(b"<CPU>"),
        Part::Since(time, _) => out.extend_from_slice(format!("<{time} since the reset>").as_bytes()),
    }
}

/// Returns bytes as text, with escapes for those that are not printable.
fn printable(bytes: &[u8]) -> String {
    let mut out = String::new();
    for c in String::from_utf8_lossy(bytes).chars() {
        if c.is_control() {
            let _ = write!(out, "\\x{:02x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::HASHED;

    fn line(text: &str) -> Line {
        let mut line = Line::default();
        line.printed(text);
        line
    }

    fn compare(lines: &[Line], text: &str, cut: bool) -> Comparison {
        let mut comparer = Comparer::new(text.as_bytes(), cut);
        let _ = lines.iter().all(|line| comparer.take(line, None));
        comparer.finish(lines.len())
    }

    #[test]
    fn the_first_difference_is_found() {
        let lines = [line("one\ntwo\n"), line("three\n => four\n")];
        let check = |text: &str, expect: Option<(usize, Option<&str>, Option<&str>)>| {
            let found = compare(&lines, text, false).difference;
            let found = found.as_ref().map(|it| (it.line, it.kernel.as_deref(), it.expected.as_deref()));
            assert_eq!(found, expect, "{text:?}");
        };
        check("one\ntwo\nthree\n => four\n", None);
        check("one\ntwo\nthree\n => foul\n", Some((4, Some(" => foul"), Some(" => four"))));
        check("one\nto\nthree\n => four\n", Some((2, Some("to"), Some("two"))));
        check("one\ntwo\n", Some((3, None, Some("three"))));
        check("one\ntwo\nthree\n => four\nfive\n", Some((5, Some("five"), None)));
        check("one\ntwo\nthree\n => four \n", Some((4, Some(" => four "), Some(" => four"))));
        check("", Some((1, None, Some("one"))));
    }

    #[test]
    fn a_cut_is_not_a_difference() {
        let lines = [line("one\n"), line("two\n")];
        let check = |text, same: bool| {
            let found = compare(&lines, text, true);
            assert_eq!((found.difference.is_none(), found.cut), (same, true), "{text:?}");
        };
        check("one\ntw", true);
        check("one\n", true);
        check("one\ntx\n", false);
        check("ome\ntw", false);
    }

    #[test]
    fn each_pointer_has_a_hash_of_its_own() {
        let lines = [0x10, 0x20, 0x10].map(|address| line(&format!("p={HASHED}{address:016x}\n")));
        let check = |text: &str, same: bool| {
            assert_eq!(compare(&lines, text, false).difference.is_none(), same, "{text:?}");
        };
        check("p=00000000aabbccdd\np=0000000011111111\np=00000000aabbccdd\n", true);
        check("p=00000000aabbccdd\np=0000000011111111\np=0000000011111111\n", false);
        check("p=00000000aabbccdd\np=00000000aabbccdd\np=00000000aabbccdd\n", false);
        check("p=00000000aabbccdd\np=0000000111111111\np=00000000aabbccdd\n", false);
        check("p=(____ptrval____)\np=(____ptrval____)\np=(____ptrval____)\n", true);
    }

    #[test]
    fn all_times_are_since_the_same_reset() {
        let lines = |form| {
            [5_000_400, 7_000_600].map(|time| {
                let mut line = Line::default();
                line.since(time, form);
                line.push("us\n");
                line
            })
        };
        let check = |form, text: &str, same: bool| {
            assert_eq!(compare(&lines(form), text, false).difference.is_none(), same, "{form:?} {text:?}");
        };
        // The buffer was reset at 4,000,000 ± 500.
        check(Since::Micros, "1000us\n3001us\n", true);
        check(Since::Micros, "1000us\n3000us\n", true);
        check(Since::Micros, "1000us\n3002us\n", false);
        check(Since::Micros, "1000us\n2999us\n", false);
        check(Since::Micros, "   0us\n2000us\n", true);
        check(Since::Micros, "  0us\n2000us\n", false);
        check(Since::Millis, "1.000us\n3.001us\n", true);
        check(Since::Millis, "1.00us\n3.001us\n", false);
        check(Since::UnitsBare, "400us\n2000600us\n", true);
        check(Since::UnitsBare, "400us\n2000601us\n", false);
    }
}
