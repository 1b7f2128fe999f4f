//! Plain comparisons of fields, evaluated without CEL.
//!
//! Most conditions are `ret == 8` or `comm == "eventfd"`, and CEL takes ten times as long for
//! them as decoding the event does. A [`Comparison`] is one of them, read from CEL's own syntax
//! tree; wherever the meaning is not plain (another type, a field that is not there, a number
//! beyond 63 bits) it leaves the answer to CEL.

use super::{
    condition::{BOUND_PREFIX, SYMBOL_PREFIX},
    evaluate::Bound,
    observed::{Observed, lookup},
};
use crate::{scenario::Literal, trace::Value};
use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};
use std::cmp::Ordering;

/// An expression that is evaluated without CEL.
#[derive(Clone, Debug)]
pub(super) enum Comparison {
    /// A field beside a constant, or beside a value of an earlier event.
    Field(String, Relation, Operand),
    /// A field among constants.
    Among(String, Vec<Operand>),
    Not(Box<Comparison>),
    Both(Box<(Comparison, Comparison)>),
    Either(Box<(Comparison, Comparison)>),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Relation {
    Equal,
    Differs,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

#[derive(Clone, Debug)]
pub(super) enum Operand {
    Int(i64),
    Text(String),
    /// The value an earlier event bound to this name.
    Bound(String),
}

/// A value that both sides can be, so that they can be compared.
enum Plain<'a> {
    Int(i64),
    Text(&'a str),
}

impl Comparison {
    /// The comparison that `expression` is, if it is one.
    pub(super) fn of(expression: &IdedExpr) -> Option<Comparison> {
        let Expr::Call(CallExpr { func_name, target: None, args }) = &expression.expr else { return None };
        let both = |args: &[IdedExpr]| match args {
            [a, b] => Some(Box::new((Comparison::of(a)?, Comparison::of(b)?))),
            _ => None,
        };
        let relation = match func_name.as_str() {
            operators::LOGICAL_AND => return Some(Comparison::Both(both(args)?)),
            operators::LOGICAL_OR => return Some(Comparison::Either(both(args)?)),
            operators::LOGICAL_NOT => {
                return Some(Comparison::Not(Box::new(Comparison::of(args.first()?)?)));
            }
            operators::IN => {
                let [field, IdedExpr { expr: Expr::List(list), .. }] = args.as_slice() else { return None };
                if !list.optional_indices.is_empty() {
                    return None;
                }
                let operands = list.elements.iter().map(operand).collect::<Option<Vec<_>>>()?;
                return Some(Comparison::Among(subject(field)?, operands));
            }
            operators::EQUALS => Relation::Equal,
            operators::NOT_EQUALS => Relation::Differs,
            operators::LESS => Relation::Less,
            operators::LESS_EQUALS => Relation::AtMost,
            operators::GREATER => Relation::Greater,
            operators::GREATER_EQUALS => Relation::AtLeast,
            _ => return None,
        };
        let [field, value] = args.as_slice() else { return None };
        Some(Comparison::Field(subject(field)?, relation, operand(value)?))
    }

    /// Whether it holds of `event`; `None` where only CEL can tell.
    pub(super) fn holds<E: Observed + ?Sized>(&self, event: &E, bound: &Bound) -> Option<bool> {
        match self {
            Comparison::Field(name, relation, operand) => {
                let value = resolve(event, name)?;
                let order = plain(&value)?.compare(&operand.plain(bound)?)?;
                relation.holds(order)
            }
            Comparison::Among(name, operands) => {
                let value = resolve(event, name)?;
                let value = plain(&value)?;
                for operand in operands {
                    if value.compare(&operand.plain(bound)?)?.is_ok_and(Ordering::is_eq) {
                        return Some(true);
                    }
                }
                Some(false)
            }
            Comparison::Not(inner) => inner.holds(event, bound).map(|holds| !holds),
            Comparison::Both(sides) => Some(sides.0.holds(event, bound)? && sides.1.holds(event, bound)?),
            Comparison::Either(sides) => Some(sides.0.holds(event, bound)? || sides.1.holds(event, bound)?),
        }
    }
}

/// The name of a field; what is bound is no field.
fn subject(expression: &IdedExpr) -> Option<String> {
    match &expression.expr {
        Expr::Ident(name) if !name.starts_with(BOUND_PREFIX) => Some(name.clone()),
        _ => None,
    }
}

fn operand(expression: &IdedExpr) -> Option<Operand> {
    match &expression.expr {
        Expr::Literal(LiteralValue::Int(number)) => Some(Operand::Int(*number.inner())),
        Expr::Literal(LiteralValue::String(text)) => Some(Operand::Text(text.inner().to_owned())),
        Expr::Ident(name) => Some(Operand::Bound(name.strip_prefix(BOUND_PREFIX)?.to_owned())),
        _ => None,
    }
}

/// The field, or the symbol of an address.
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

impl Operand {
    #[inline]
    fn plain<'a>(&'a self, bound: &'a Bound) -> Option<Plain<'a>> {
        match self {
            Operand::Int(number) => Some(Plain::Int(*number)),
            Operand::Text(text) => Some(Plain::Text(text)),
            Operand::Bound(name) => match bound.iter().find(|(bound, _)| bound == name)? {
                (_, Literal::Int(number)) => Some(Plain::Int(i64::try_from(*number).ok()?)),
                (_, Literal::Text(text)) => Some(Plain::Text(text)),
                _ => None,
            },
        }
    }
}

/// Why two plain values have no order: texts that differ.
struct Differ;

impl Plain<'_> {
    /// The order of two integers, or whether two texts are the same; `None` for unlike types.
    #[inline]
    fn compare(&self, other: &Plain<'_>) -> Option<Result<Ordering, Differ>> {
        match (self, other) {
            (Plain::Int(a), Plain::Int(b)) => Some(Ok(a.cmp(b))),
            (Plain::Text(a), Plain::Text(b)) => Some(if a == b { Ok(Ordering::Equal) } else { Err(Differ) }),
            _ => None,
        }
    }
}

impl Relation {
    #[inline]
    fn holds(self, order: Result<Ordering, Differ>) -> Option<bool> {
        match (self, order) {
            (Relation::Equal, order) => Some(order.is_ok_and(Ordering::is_eq)),
            (Relation::Differs, order) => Some(!order.is_ok_and(Ordering::is_eq)),
            // Only CEL says which of two texts is the lesser.
            (_, Err(Differ)) => None,
            (Relation::Less, Ok(order)) => Some(order.is_lt()),
            (Relation::AtMost, Ok(order)) => Some(order.is_le()),
            (Relation::Greater, Ok(order)) => Some(order.is_gt()),
            (Relation::AtLeast, Ok(order)) => Some(order.is_ge()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{condition::Condition, evaluate::Holds, fixture};
    use crate::scenario::{FromText, Literal};
    use proptest::{prop_oneof, proptest, strategy::Strategy};

    /// The fields an event of these tests has, one of a name that is no field, and what is bound.
    const NAMES: [&str; 9] =
        ["small", "minus", "large", "text", "address", "list", "comm", "nothing", "$kept"];
    const CONSTANTS: [&str; 9] =
        ["8", "-9", "0", "9223372036854775807", "'abc'", "'eventfd'", "$kept", "$word", "3u"];

    fn with_and_without_cel(text: &str) -> Option<(Holds, Holds)> {
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
