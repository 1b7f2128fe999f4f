//! The macros of the kernel's `TP_printk`, which print formats call.

use super::{
    expression::{Expression, width},
    manner::Manner,
    render::{Evaluated, evaluate, number, of_value},
    table::{self, Printed},
};
use crate::event::{Event, Value};
use std::borrow::Cow;

/// Evaluates the macros of the kernel's `TP_printk`.
pub(super) fn call<'a>(
    event: &Event<'a>,
    name: &str,
    arguments: &[Expression],
    manner: Manner,
) -> Option<Evaluated<'a>> {
    if let Some((kind, delimiter, pairs)) = table::shape(name, arguments) {
        let value = number(event, arguments.first()?, manner)? as u64;
        let entries = table::entries(pairs);
        let known = kind == Printed::Symbolic && entries.iter().any(|&(entry, _)| entry == value);
        // A name without a number could be that of the value.
        if manner.is_kernel() && !known && !table::is_resolved(pairs) {
            return None;
        }
        let text = table::lookup(kind, value, delimiter, &entries, manner);
        return Some(Evaluated::Text(Cow::Owned(text)));
    }
    match (name, arguments) {
        (
            "__get_str" | "__get_rel_str" | "__get_dynamic_array" | "__get_rel_dynamic_array",
            [Expression::Name(field)],
        ) => of_value(event.field(field)?),
        ("__get_str" | "__get_rel_str", [Expression::Index(field, index)]) => {
            let Expression::Name(field) = field.as_ref() else { return None };
            let at = usize::try_from(number(event, index, manner)?).ok()?;
            match event.field(field)? {
                Value::List(mut items) if at < items.len() => of_value(items.swap_remove(at)),
                _ => None,
            }
        }
        ("__print_hex" | "__print_hex_str", [array, length]) => {
            let length = usize::try_from(number(event, length, manner)?).ok()?;
            let Evaluated::List(items) = evaluate(event, array, manner)? else { return None };
            let separator = if name == "__print_hex" { " " } else { "" };
            let bytes: Option<Vec<String>> =
                items.iter().take(length).map(|item| Some(format!("{:02x}", item.as_u64()?))).collect();
            Some(Evaluated::Text(Cow::Owned(bytes?.join(separator))))
        }
        (
            "__get_bitmask" | "__get_cpumask" | "__get_rel_bitmask" | "__get_rel_cpumask",
            [Expression::Name(field)],
        ) => bitmask(&event.field(field)?),
        ("sizeof", [Expression::Name(name)]) => {
            width(name).map(|(bits, _)| Evaluated::Number(i128::from(bits / 8)))
        }
        ("__get_dynamic_array_len" | "__get_rel_dynamic_array_len", [Expression::Name(field)]) => {
            Some(Evaluated::Number(i128::from(event.dynamic_size(field)?)))
        }
        ("__print_array", [array, count, _size]) => {
            let count = usize::try_from(number(event, count, manner)?).ok()?;
            let Evaluated::List(items) = evaluate(event, array, manner)? else { return None };
            braced(items.get(..count).unwrap_or(&items))
        }
        ("__print_dynamic_array", [Expression::Name(field), _size]) => match event.field(field)? {
            Value::List(items) => braced(&items),
            _ => None,
        },
        _ => None,
    }
}

fn braced(items: &[Value<'_>]) -> Option<Evaluated<'static>> {
    let items: Option<Vec<String>> =
        items.iter().map(|item| Some(format!("{:#x}", item.as_u64()?))).collect();
    Some(Evaluated::Text(Cow::Owned(format!("{{{}}}", items?.join(",")))))
}

/// Formats all bits of an array as `%*pb` does.
fn bitmask(value: &Value<'_>) -> Option<Evaluated<'static>> {
    let words = match value {
        Value::List(words) => words.clone(),
        Value::Bytes(bytes) => {
            let word = |word: &[u8; 8]| Value::Unsigned(u64::from_le_bytes(*word));
            bytes.as_chunks().0.iter().map(word).collect()
        }
        _ => return None,
    };
    Some(Evaluated::Text(Cow::Owned(bits(&words, 64 * words.len(), false)?)))
}

/// Formats the lowest bits of words of 64 bits: as `%*pb` does, in groups of 32 bits, the highest first; as
/// `%*pbl` does, as ranges of numbers.
pub(super) fn bits(words: &[Value<'_>], count: usize, list: bool) -> Option<String> {
    let words: Vec<u64> = words.iter().map(Value::as_u64).collect::<Option<_>>()?;
    let is_set =
        |bit: usize| bit < count && words.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1);
    let mut parts = Vec::new();
    if list {
        let mut bit = 0;
        while bit < count {
            let length = (bit..count).take_while(|&bit| is_set(bit)).count();
            match length {
                0 => {}
                1 => parts.push(bit.to_string()),
                _ => parts.push(format!("{bit}-{}", bit + length - 1)),
            }
            bit += length + 1;
        }
    } else {
        for start in (0..count).step_by(32).rev() {
            let group: u32 = (0..32).map(|bit| u32::from(is_set(start + bit)) << bit).sum();
            let digits = (count - start).min(32).div_ceil(4);
            parts.push(format!("{group:0digits$x}"));
        }
    }
    Some(parts.join(","))
}
