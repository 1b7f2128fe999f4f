//! Plain comparisons of fields, which need no CEL.
//!
//! Most conditions are like `ret == 8` or `comm == "eventfd"`, for which CEL takes ten times as long as decoding the
//! event does. A [`Comparison`] is such a condition, converted from CEL's syntax tree.

use super::condition::BOUND_PREFIX;
use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};

/// An expression that is evaluated without CEL.
#[derive(Clone, Debug)]
pub(crate) enum Comparison {
    /// A field compared with a constant, or with a value of an earlier event.
    Field(String, Relation, Operand),
    /// A field that must be one of these constants.
    Among(String, Vec<Operand>),
    Not(Box<Comparison>),
    Both(Box<(Comparison, Comparison)>),
    Either(Box<(Comparison, Comparison)>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Relation {
    Equal,
    Differs,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

#[derive(Clone, Debug)]
pub(crate) enum Operand {
    Int(i64),
    Text(String),
    /// The value that an earlier event bound to this name.
    Bound(String),
}

impl Comparison {
    /// Converts `expression` to a comparison, if it is one.
    pub(crate) fn of(expression: &IdedExpr) -> Option<Comparison> {
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
}

/// Returns the name of a field; a bound variable is not a field.
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
