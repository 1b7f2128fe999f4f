//! Formats an event as text by its print format.

use super::{
    expression::{Expression, Format},
    macros::{bits, call},
    manner::Manner,
    probe,
    table::{binary, truncate},
};
use crate::event::{Event, Value};
use std::{borrow::Cow, fmt::Write};

/// The maximum field width and precision; larger ones are reduced to it.
const WIDTH_MAX: usize = 1024;

/// A parsed print format, ready to be filled in.
#[derive(Debug)]
pub(crate) struct Printer {
    pieces: Vec<Piece>,
}

#[derive(Debug)]
enum Piece {
    Literal(String),
    Conversion {
        conversion: Conversion,
        /// Its width and its precision, if they are arguments.
        stars: Vec<Expression>,
        argument: Expression,
    },
}

/// The text between a `%` and the letter of the conversion, and that letter.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Conversion {
    left: bool,
    zero: bool,
    plus: bool,
    alternate: bool,
    width: usize,
    /// Whether width and precision are passed as arguments, as `*`.
    stars: (bool, bool),
    precision: Option<usize>,
    /// Bits of an integer.
    bits: u32,
    letter: char,
    /// The letters after `%p`: `S`, `I4`.
    pointer: String,
}

/// The value of an argument.
pub(super) enum Evaluated<'a> {
    Number(i128),
    Text(Cow<'a, str>),
    List(Vec<Value<'a>>),
}

impl Printer {
    /// Parses a print format; `None` if this parser does not support it.
    pub(crate) fn new(print: &str) -> Option<Printer> {
        let Format { text, arguments } = Format::parse(print)?;
        let mut arguments = arguments.into_iter();
        let mut pieces = Vec::new();
        let mut rest = text.as_str();
        while let Some((literal, behind)) = rest.split_once('%') {
            pieces.push(Piece::Literal(literal.to_owned()));
            if let Some(behind) = behind.strip_prefix('%') {
                pieces.push(Piece::Literal("%".to_owned()));
                rest = behind;
                continue;
            }
            let (conversion, behind) = Conversion::parse(behind)?;
            let count = usize::from(conversion.stars.0) + usize::from(conversion.stars.1);
            let stars: Vec<_> = arguments.by_ref().take(count).collect();
            pieces.push(Piece::Conversion { conversion, stars, argument: arguments.next()? });
            rest = behind;
        }
        pieces.push(Piece::Literal(rest.to_owned()));
        Some(Printer { pieces })
    }

    /// Appends the text of `event`; on `None`, the caller must remove what was appended.
    pub(crate) fn print(&self, event: &Event<'_>, manner: Manner, out: &mut String) -> Option<()> {
        let mut unquoted = false;
        for piece in &self.pieces {
            match piece {
                Piece::Literal(text) if unquoted => {
                    out.push_str(text.strip_prefix('"').unwrap_or(text));
                    unquoted = false;
                }
                Piece::Literal(text) => out.push_str(text),
                Piece::Conversion { argument, .. } if probe::address(event, argument, manner, out) => {}
                Piece::Conversion { argument, .. } if probe::fault(event, argument, manner, out) => {
                    unquoted = true;
                }
                Piece::Conversion { conversion, stars, argument } => {
                    let mut stars = stars.iter().map(|star| number(event, star, manner));
                    let mut conversion = conversion.clone();
                    conversion.take_stars(|| i32::try_from(stars.next()??).ok())?;
                    conversion.print(event, evaluate(event, argument, manner)?, manner, out)?;
                }
            }
        }
        Some(())
    }
}

impl Conversion {
    /// Parses the text after a `%`.
    pub(super) fn parse(text: &str) -> Option<(Conversion, &str)> {
        let mut conversion = Conversion { bits: 32, ..Conversion::default() };
        let flags = text.find(|c| !"-0+ #".contains(c))?;
        for flag in text[..flags].chars() {
            match flag {
                '-' => conversion.left = true,
                '0' => conversion.zero = true,
                '+' => conversion.plus = true,
                '#' => conversion.alternate = true,
                _ => {}
            }
        }
        let (width, star, rest) = digits(&text[flags..])?;
        (conversion.width, conversion.stars.0) = (width, star);
        let rest = match rest.strip_prefix('.') {
            Some(rest) => {
                let (precision, star, rest) = digits(rest)?;
                (conversion.precision, conversion.stars.1) = (Some(precision), star);
                rest
            }
            None => rest,
        };
        let lengths = rest.find(|c| !"hlLqzjt".contains(c))?;
        conversion.bits = match &rest[..lengths] {
            "hh" => 8,
            "h" => 16,
            "" => 32,
            _ => 64,
        };
        conversion.letter = rest[lengths..].chars().next()?;
        let mut rest = &rest[lengths + conversion.letter.len_utf8()..];
        if conversion.letter == 'p' {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            // `%pS` may be followed by a word: only `I4`, `I6` and the like have more than one
            // letter.
            let length = match rest.chars().next() {
                Some('I') if end >= 2 => 2,
                Some('b') => 1 + usize::from(rest[1..].starts_with('l')),
                Some('S' | 's' | 'F' | 'f' | 'B' | 'K' | 'x' | 'M' | 'm' | 'h' | 'U') => 1,
                _ => 0,
            };
            conversion.pointer = rest[..length].to_owned();
            rest = &rest[length..];
        }
        Some((conversion, rest))
    }

    /// Returns the letter at its end.
    pub(super) fn letter(&self) -> char {
        self.letter
    }

    /// Returns the letters after `%p`.
    pub(super) fn pointer(&self) -> &str {
        &self.pointer
    }

    /// Returns the bits of an integer.
    pub(super) fn bits(&self) -> u32 {
        self.bits
    }

    /// Fills in the width and precision that are passed as arguments.
    pub(super) fn take_stars(&mut self, mut next: impl FnMut() -> Option<i32>) -> Option<()> {
        if self.stars.0 {
            let width = next()?;
            self.left |= width < 0;
            self.width = (width.unsigned_abs() as usize).min(WIDTH_MAX);
        }
        if self.stars.1 {
            self.precision = usize::try_from(next()?).ok().map(|precision| precision.min(WIDTH_MAX));
        }
        Some(())
    }

    pub(super) fn print(
        &self,
        event: &Event<'_>,
        value: Evaluated<'_>,
        manner: Manner,
        out: &mut String,
    ) -> Option<()> {
        match (self.letter, value) {
            ('s', value) => {
                let text = text_of(event, value)?;
                let kept = match self.precision {
                    Some(most) => text.chars().take(most).collect::<String>().into(),
                    None => text,
                };
                self.pad(&kept, out);
            }
            // The kernel prints the byte, which is not a character alone.
            ('c', Evaluated::Number(number)) if manner.is_kernel() && number as u8 >= 0x80 => {
                self.pad("\u{FFFD}", out);
            }
            ('c', Evaluated::Number(number)) => self.pad(&char::from(number as u8).to_string(), out),
            ('p', Evaluated::Number(number)) => self.pad(&self.address(event, number as u64, manner), out),
            // The width is the number of bits.
            ('p', Evaluated::List(words)) if self.pointer.starts_with('b') => {
                out.push_str(&bits(&words, self.width, self.pointer == "bl")?);
            }
            ('p', Evaluated::List(bytes)) if self.pointer == "h" && self.width > 0 => {
                out.push_str(&self.bytes(bytes.get(..self.width).unwrap_or(&bytes))?);
            }
            ('p', Evaluated::List(bytes)) => self.pad(&self.bytes(&bytes)?, out),
            (_, Evaluated::Number(number)) => self.integer(number, manner, out)?,
            _ => return None,
        }
        Some(())
    }

    fn integer(&self, number: i128, manner: Manner, out: &mut String) -> Option<()> {
        let signed = matches!(self.letter, 'd' | 'i');
        let number = truncate(number, Some((self.bits, signed)));
        let mut digits = match self.letter {
            'd' | 'i' | 'u' => number.unsigned_abs().to_string(),
            'x' => format!("{number:x}"),
            'X' => format!("{number:X}"),
            'o' => format!("{number:o}"),
            _ => return None,
        };
        if let Some(precision) = self.precision {
            digits = format!("{digits:0>precision$}");
        }
        // The kernel's `%#x` of 0 is `0x0`, unlike that of C.
        let alternate = self.alternate && (number != 0 || manner.is_kernel() && self.letter != 'o');
        let sign = match (number < 0, self.plus && signed, alternate, self.letter) {
            (true, ..) => "-",
            (_, true, ..) => "+",
            (_, _, true, 'x') => "0x",
            (_, _, true, 'X') => "0X",
            (_, _, true, 'o') => "0",
            _ => "",
        };
        if self.zero && !self.left && self.precision.is_none() {
            let width = self.width.saturating_sub(sign.len());
            write!(out, "{sign}{digits:0>width$}").ok()
        } else {
            self.pad(&format!("{sign}{digits}"), out);
            Some(())
        }
    }

    /// Formats `%p` and the kernel's extensions of it.
    fn address(&self, event: &Event<'_>, address: u64, manner: Manner) -> String {
        if let Manner::Kernel(kernel) = manner {
            return kernel.pointer(event.metadata().symbols(), &self.pointer, address);
        }
        let symbol = match self.pointer.as_str() {
            "S" | "s" | "F" | "f" | "B" => event.metadata().symbols().resolve(address),
            _ => None,
        };
        match symbol {
            Some(symbol) if matches!(self.pointer.as_str(), "s" | "f") => symbol.name.to_owned(),
            Some(symbol) => format!("{}+{:#x}", symbol.name, symbol.offset),
            None => format!("{address:#x}"),
        }
    }

    /// Formats `%pM`, `%pI4`, `%ph`: bytes in the record itself.
    fn bytes(&self, bytes: &[Value<'_>]) -> Option<String> {
        let bytes: Vec<u64> = bytes.iter().map(Value::as_u64).collect::<Option<_>>()?;
        let join = |separator: &str| {
            bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(separator)
        };
        match self.pointer.as_str() {
            "M" => Some(join(":")),
            "m" => Some(join("")),
            "h" => Some(join(" ")),
            "I4" => Some(bytes.iter().map(u64::to_string).collect::<Vec<_>>().join(".")),
            _ => None,
        }
    }

    fn pad(&self, text: &str, out: &mut String) {
        let missing = self.width.saturating_sub(text.chars().count());
        let spaces = " ".repeat(missing);
        let (before, after) = if self.left { ("", spaces.as_str()) } else { (spaces.as_str(), "") };
        out.extend([before, text, after]);
    }
}

/// Reads a number, 0 if there is none, or a `*`.
fn digits(text: &str) -> Option<(usize, bool, &str)> {
    if let Some(rest) = text.strip_prefix('*') {
        return Some((0, true, rest));
    }
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let number = if end == 0 { 0 } else { text[..end].parse::<usize>().unwrap_or(WIDTH_MAX) };
    Some((number.min(WIDTH_MAX), false, &text[end..]))
}

/// Returns the text that `%s` prints for a value.
fn text_of<'a>(event: &Event<'a>, value: Evaluated<'a>) -> Option<Cow<'a, str>> {
    match value {
        Evaluated::Text(text) => Some(text),
        // A pointer to one of the kernel's own strings.
        Evaluated::Number(address) => Some(match event.metadata().printk_format(address as u64) {
            Some(text) => Cow::Owned(text.to_owned()),
            None => Cow::Owned(format!("{:#x}", address as u64)),
        }),
        Evaluated::List(_) => None,
    }
}

pub(super) fn evaluate<'a>(
    event: &Event<'a>,
    expression: &Expression,
    manner: Manner,
) -> Option<Evaluated<'a>> {
    match expression {
        Expression::Number(number) => Some(Evaluated::Number(*number)),
        Expression::Text(text) => Some(Evaluated::Text(Cow::Owned(text.clone()))),
        Expression::Field(name) => of_value(event.field(name)?),
        Expression::Name(_) | Expression::Braces(_) => None,
        Expression::Index(array, index) => {
            let at = usize::try_from(number(event, index, manner)?).ok()?;
            match evaluate(event, array, manner)? {
                Evaluated::List(mut items) if at < items.len() => of_value(items.swap_remove(at)),
                Evaluated::Text(text) => {
                    Some(Evaluated::Number(i128::from(text.as_bytes().get(at).copied().unwrap_or(0))))
                }
                _ => None,
            }
        }
        Expression::Cast(to, value) => match evaluate(event, value, manner)? {
            Evaluated::Number(number) => Some(Evaluated::Number(truncate(number, *to))),
            other => Some(other),
        },
        // For `%pM` and the like, the address of an array in the record is the array itself.
        Expression::Unary("&", value) => evaluate(event, value, manner),
        Expression::Unary(..) => {
            let fields = |name: &str| field_number(event, name);
            expression.number(&fields).map(Evaluated::Number)
        }
        Expression::Binary(operator, left, right) => {
            binary(operator, number(event, left, manner)?, number(event, right, manner)?)
                .map(Evaluated::Number)
        }
        Expression::Choice(condition, yes, no) => {
            evaluate(event, if number(event, condition, manner)? != 0 { yes } else { no }, manner)
        }
        Expression::Call(name, arguments) => call(event, name, arguments, manner),
    }
}

pub(super) fn number(event: &Event<'_>, expression: &Expression, manner: Manner) -> Option<i128> {
    match evaluate(event, expression, manner)? {
        Evaluated::Number(number) => Some(number),
        _ => None,
    }
}

fn field_number(event: &Event<'_>, name: &str) -> Option<i128> {
    match event.field(name)? {
        Value::Signed(number) => Some(i128::from(number)),
        Value::Unsigned(number) => Some(i128::from(number)),
        _ => None,
    }
}

pub(super) fn of_value(value: Value<'_>) -> Option<Evaluated<'_>> {
    Some(match value {
        Value::Signed(number) => Evaluated::Number(i128::from(number)),
        Value::Unsigned(number) => Evaluated::Number(i128::from(number)),
        Value::Text(text) => Evaluated::Text(text),
        Value::List(items) => Evaluated::List(items),
        Value::Bytes(_) => return None,
    })
}
