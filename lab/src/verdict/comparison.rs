//! Plain comparisons of fields, evaluated without CEL.
//!
//! CEL evaluates everything else: other types, missing fields, numbers of more than 63 bits.

use super::{
    evaluate::Bound,
    observed::{Observed, lookup},
};
use crate::scenario::{
    Literal,
    comparison::{Comparison, Operand, Relation},
    condition::SYMBOL_PREFIX,
};
use std::cmp::Ordering;
use trace::Value;

/// A value that can be compared without CEL.
enum Plain<'a> {
    Int(i64),
    Text(&'a str),
}

/// Returns whether a comparison holds for `event`; `None` if only CEL can evaluate it.
pub(super) fn holds<E: Observed + ?Sized>(comparison: &Comparison, event: &E, bound: &Bound) -> Option<bool> {
    match comparison {
        Comparison::Field(name, relation, operand) => {
            // Compared in place: moving it takes longer than comparing it.
            let value = resolve(event, name);
            let order = plain(value.as_ref()?)?.compare(&constant(operand, bound)?)?;
            agrees(*relation, order)
        }
        Comparison::Among(name, operands) => {
            let value = resolve(event, name);
            let value = plain(value.as_ref()?)?;
            for operand in operands {
                if value.compare(&constant(operand, bound)?)?.is_ok_and(Ordering::is_eq) {
                    return Some(true);
                }
            }
            Some(false)
        }
        Comparison::Not(inner) => holds(inner, event, bound).map(|holds| !holds),
        Comparison::Both(sides) => Some(holds(&sides.0, event, bound)? && holds(&sides.1, event, bound)?),
        Comparison::Either(sides) => Some(holds(&sides.0, event, bound)? || holds(&sides.1, event, bound)?),
    }
}

/// Returns the value of a field, or the symbol at its address.
#[inline]
fn resolve<'a, E: Observed + ?Sized>(event: &'a E, name: &str) -> Option<Value<'a>> {
    let Some(field) = name.strip_prefix(SYMBOL_PREFIX) else { return lookup(event, name) };
    let (symbol, _) = event.symbol(lookup(event, field)?.as_u64()?)?;
    Some(Value::Text(symbol.into()))
}

#[inline]
fn plain<'a>(value: &'a Value<'_>) -> Option<Plain<'a>> {
    match value {
        Value::Signed(number) => Some(Plain::Int(*number)),
        Value::Unsigned(number) => Some(Plain::Int(i64::try_from(*number).ok()?)),
        Value::Text(text) => Some(Plain::Text(text)),
        _ => None,
    }
}

#[inline]
fn constant<'a>(operand: &'a Operand, bound: &'a Bound) -> Option<Plain<'a>> {
    match operand {
        Operand::Int(number) => Some(Plain::Int(*number)),
        Operand::Text(text) => Some(Plain::Text(text)),
        Operand::Bound(name) => match bound.iter().find(|(bound, _)| bound == name)? {
            (_, Literal::Int(number)) => Some(Plain::Int(i64::try_from(*number).ok()?)),
            (_, Literal::Text(text)) => Some(Plain::Text(text)),
            _ => None,
        },
    }
}

/// Two texts that differ: only CEL can order them.
struct Differ;

impl Plain<'_> {
    /// Orders two integers, or compares two texts for equality; `None` for different types.
    #[inline]
    fn compare(&self, other: &Plain<'_>) -> Option<Result<Ordering, Differ>> {
        match (self, other) {
            (Plain::Int(a), Plain::Int(b)) => Some(Ok(a.cmp(b))),
            (Plain::Text(a), Plain::Text(b)) => Some(if a == b { Ok(Ordering::Equal) } else { Err(Differ) }),
            _ => None,
        }
    }
}

#[inline]
fn agrees(relation: Relation, order: Result<Ordering, Differ>) -> Option<bool> {
    match (relation, order) {
        (Relation::Equal, order) => Some(order.is_ok_and(Ordering::is_eq)),
        (Relation::Differs, order) => Some(!order.is_ok_and(Ordering::is_eq)),
        // Only CEL orders texts.
        (_, Err(Differ)) => None,
        (Relation::Less, Ok(order)) => Some(order.is_lt()),
        (Relation::AtMost, Ok(order)) => Some(order.is_le()),
        (Relation::Greater, Ok(order)) => Some(order.is_gt()),
        (Relation::AtLeast, Ok(order)) => Some(order.is_ge()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{evaluate::ConditionResult, fixture};
    use crate::scenario::{Condition, FromText, Literal};
    use proptest::{prop_oneof, proptest, strategy::Strategy};

    /// The fields of the events of these tests, a name that is not a field, and bound values.
    const NAMES: [&str; 9] =
        ["small", "minus", "large", "text", "address", "list", "comm", "nothing", "$kept"];
    const CONSTANTS: [&str; 9] =
        ["8", "-9", "0", "9223372036854775807", "'abc'", "'eventfd'", "$kept", "$word", "3u"];

    fn with_and_without_cel(text: &str) -> Option<(ConditionResult, ConditionResult)> {
        let event = fixture::event(
            "1 0 eventfd-90 test:it small=8 minus=-9 large=0xfffffffffffffff0 text=\"abc\" \
             address=@vfs_write+4 list=[1,2]",
        );
        let bound = [("kept".to_owned(), Literal::Int(8)), ("word".to_owned(), Literal::Text("abc".into()))];
        let condition = Condition::from_text(text).ok()?;
        let without = condition.holds(&event, &bound);
        Some((without, condition.with_cel_only().holds(&event, &bound)))
    }

    fn one() -> impl Strategy<Value = String> {
        let name = || proptest::sample::select(&NAMES[..]);
        let constant = || proptest::sample::select(&CONSTANTS[..]);
        let relation = || proptest::sample::select(&["==", "!=", "<", "<=", ">", ">="][..]);
        prop_oneof![
            (name(), relation(), constant()).prop_map(|(a, relation, b)| format!("{a} {relation} {b}")),
            (constant(), relation(), name()).prop_map(|(a, relation, b)| format!("{a} {relation} {b}")),
            (name(), constant(), constant()).prop_map(|(a, b, c)| format!("{a} in [{b}, {c}]")),
            (relation(), constant()).prop_map(|(relation, a)| format!("sym(address) {relation} {a}")),
        ]
    }

    proptest! {
        #[test]
        fn cel_says_the_same(a in one(), b in one(), join in 0..4) {
            let text = match join {
                0 => a,
                1 => format!("!({a})"),
                2 => format!("({a}) || ({b})"),
                _ => format!("!(({a}) && ({b}))"),
            };
            if let Some((without, with)) = with_and_without_cel(&text) {
                assert_eq!(without, with, "{text}");
            }
        }
    }

    #[test]
    fn what_is_plain_is_not_left_to_cel() {
        let check = |text: &str, expect: bool| {
            let condition = Condition::from_text(text).unwrap();
            let found = condition.parts().iter().all(|part| part.comparison.is_some());
            assert_eq!(found, expect, "{text}");
        };
        check("ret == 8 && comm == 'eventfd'", true);
        check("fd == $fd && !(ret < 0)", true);
        check("sym(ip) in ['vfs_write', 'vfs_read'] || id != 64", true);
        check("ret + 1 == 8", false);
        check("comm.startsWith('event')", false);
        check("8 == ret", false);
    }
}
