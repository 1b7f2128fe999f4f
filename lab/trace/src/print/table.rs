//! `__print_symbolic` and `__print_flags`: the names of a field's values.

use super::{
    expression::{Expression, Format},
    manner::Manner,
};

/// The kind of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Printed {
    /// Names for whole values.
    Symbolic,
    /// Names for bits or groups of bits.
    Flags,
}

/// The names that a print format gives to the values of one field.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    field: String,
    kind: Printed,
    /// The expression that is looked up, such as the masked field.
    argument: Expression,
    delimiter: String,
    entries: Vec<(u64, String)>,
}

impl Table {
    /// Returns the field whose values have names.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// Returns whether the table names values or flags.
    pub fn kind(&self) -> Printed {
        self.kind
    }

    /// Returns values and names, in the order of the print format. Omits entries whose value is an
    /// enum name that the kernel did not resolve.
    pub fn entries(&self) -> &[(u64, String)] {
        &self.entries
    }

    /// Returns the value called `name`.
    pub fn value(&self, name: &str) -> Option<u64> {
        self.entries.iter().find(|(_, known)| known == name).map(|&(value, _)| value)
    }

    /// Returns the text for a raw value of the field, as the kernel prints it: a name, or names
    /// joined by the format's delimiter, with any remaining bits in hexadecimal.
    pub fn text(&self, raw: u64) -> String {
        let field = |_: &str| Some(i128::from(raw));
        let value = self.argument.number(&field).map_or(raw, |value| value as u64);
        lookup(self.kind, value, &self.delimiter, &self.entries, Manner::Report)
    }
}

/// Returns the names of `value`.
pub(super) fn lookup(
    kind: Printed,
    value: u64,
    delimiter: &str,
    entries: &[(u64, String)],
    manner: Manner,
) -> String {
    if kind == Printed::Symbolic {
        let found = entries.iter().find(|&&(known, _)| known == value);
        return found.map_or_else(|| format!("{value:#x}"), |(_, name)| name.clone());
    }
    let mut left = value;
    let mut text = String::new();
    for (flag, name) in entries {
        // The kernel names no bits of 0, and prints an entry of no bits while any are left.
        let named = match (manner.is_kernel(), *flag) {
            (false, 0) => value == 0,
            (true, _) => left != 0 && left & flag == *flag,
            (false, _) => left & flag == *flag,
        };
        if named {
            if !text.is_empty() {
                text.push_str(delimiter);
            }
            text.push_str(name);
            left &= !flag;
        }
    }
    if left != 0 {
        if !text.is_empty() {
            text.push_str(delimiter);
        }
        text.push_str(&format!("{left:#x}"));
    }
    text
}

/// Returns the tables of a print format that look up the value of a single field.
pub(crate) fn tables(print: &str) -> Vec<Table> {
    if !print.contains("__print_") {
        return Vec::new();
    }
    let mut found = Vec::new();
    for argument in Format::parse(print).iter().flat_map(|format| &format.arguments) {
        collect(argument, &mut found);
    }
    found
}

fn collect(expression: &Expression, found: &mut Vec<Table>) {
    if let Expression::Call(name, arguments) = expression
        && let Some(table) = table(name, arguments)
    {
        found.push(table);
        return;
    }
    for part in expression.parts() {
        collect(part, found);
    }
}

fn table(name: &str, arguments: &[Expression]) -> Option<Table> {
    let (kind, delimiter, pairs) = shape(name, arguments)?;
    let argument = arguments.first()?;
    let mut fields = Vec::new();
    argument.fields(&mut fields);
    let field = (*fields.first()?).to_owned();
    fields.iter().all(|other| **other == field).then(|| Table {
        field,
        kind,
        argument: argument.clone(),
        delimiter: delimiter.to_owned(),
        entries: entries(pairs),
    })
}

/// Returns kind, delimiter and pairs of a call that looks up names; `None` for other calls.
pub(super) fn shape<'a>(
    name: &str,
    arguments: &'a [Expression],
) -> Option<(Printed, &'a str, &'a [Expression])> {
    match (name, arguments) {
        ("__print_symbolic" | "__print_symbolic_u64", [_, pairs @ ..]) => {
            Some((Printed::Symbolic, "", pairs))
        }
        ("__print_flags" | "__print_flags_u64", [_, Expression::Text(delimiter), pairs @ ..]) => {
            Some((Printed::Flags, delimiter, pairs))
        }
        _ => None,
    }
}

/// Returns the pairs whose value is a constant.
pub(super) fn entries(pairs: &[Expression]) -> Vec<(u64, String)> {
    let nothing = |_: &str| None;
    pairs
        .iter()
        .filter_map(|pair| match pair {
            Expression::Braces(pair) => match pair.as_slice() {
                [value, Expression::Text(name)] => Some((value.number(&nothing)? as u64, name.clone())),
                _ => None,
            },
            _ => None,
        })
        .collect()
}

/// Returns whether the values of all pairs are known.
pub(super) fn is_resolved(pairs: &[Expression]) -> bool {
    let known = |pair: &Expression| match pair {
        Expression::Braces(pair) => pair.first().is_some_and(|value| value.number(&|_| None).is_some()),
        _ => false,
    };
    pairs.iter().all(known)
}

impl Expression {
    /// Returns the operands of this expression.
    fn parts(&self) -> Vec<&Expression> {
        match self {
            Expression::Number(_) | Expression::Text(_) | Expression::Field(_) | Expression::Name(_) => {
                vec![]
            }
            Expression::Unary(_, a) | Expression::Cast(_, a) => vec![a],
            Expression::Index(a, b) | Expression::Binary(_, a, b) => vec![a, b],
            Expression::Choice(a, b, c) => vec![a, b, c],
            Expression::Call(_, parts) | Expression::Braces(parts) => parts.iter().collect(),
        }
    }

    fn fields<'a>(&'a self, found: &mut Vec<&'a str>) {
        if let Expression::Field(name) = self {
            found.push(name);
        }
        for part in self.parts() {
            part.fields(found);
        }
    }

    /// Evaluates an expression of integers; `field` returns the values of the record's fields.
    /// `None` if it contains anything else, divides by 0, or shifts by more than a word.
    pub(super) fn number(&self, field: &dyn Fn(&str) -> Option<i128>) -> Option<i128> {
        Some(match self {
            Expression::Number(number) => *number,
            Expression::Field(name) => field(name)?,
            Expression::Cast(to, value) => truncate(value.number(field)?, *to),
            Expression::Unary(operator, value) => {
                let value = value.number(field)?;
                match *operator {
                    "-" => value.wrapping_neg(),
                    "~" => !value,
                    "!" => i128::from(value == 0),
                    "+" => value,
                    _ => return None,
                }
            }
            Expression::Binary(operator, left, right) => {
                binary(operator, left.number(field)?, right.number(field)?)?
            }
            Expression::Choice(condition, yes, no) => {
                if condition.number(field)? != 0 {
                    yes.number(field)?
                } else {
                    no.number(field)?
                }
            }
            _ => return None,
        })
    }
}

/// Truncates a number to an integer of the given bits and sign.
pub(super) fn truncate(value: i128, to: Option<(u32, bool)>) -> i128 {
    let Some((bits, signed)) = to else { return value };
    let unused = 128 - bits;
    if signed { value << unused >> unused } else { ((value as u128) << unused >> unused) as i128 }
}

pub(super) fn binary(operator: &str, left: i128, right: i128) -> Option<i128> {
    let shift = || u32::try_from(right).ok().filter(|&by| by < 64);
    Some(match operator {
        "||" => i128::from(left != 0 || right != 0),
        "&&" => i128::from(left != 0 && right != 0),
        "|" => left | right,
        "^" => left ^ right,
        "&" => left & right,
        "==" => i128::from(left == right),
        "!=" => i128::from(left != right),
        "<" => i128::from(left < right),
        "<=" => i128::from(left <= right),
        ">" => i128::from(left > right),
        ">=" => i128::from(left >= right),
        "<<" => left.wrapping_shl(shift()?),
        ">>" => left >> shift()?,
        "+" => left.wrapping_add(right),
        "-" => left.wrapping_sub(right),
        "*" => left.wrapping_mul(right),
        "/" => left.checked_div(right)?,
        "%" => left.checked_rem(right)?,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_values() {
        let check = |print: &str, field: &str, raw: u64, expect: Option<&str>| {
            let tables = tables(print);
            let found = tables.iter().find(|table| table.field() == field).map(|table| table.text(raw));
            assert_eq!(found.as_deref(), expect, "{print} {raw:#x}");
        };
        let vector = r#""vec=%u [action=%s]", REC->vec, __print_symbolic(REC->vec, { 0, "HI" }, { 1, "TIMER" }, { -1, "none" })"#;
        check(vector, "vec", 1, Some("TIMER"));
        check(vector, "vec", 0, Some("HI"));
        check(vector, "vec", u64::MAX, Some("none"));
        check(vector, "vec", 77, Some("0x4d"));
        check(vector, "action", 0, None);
        // The format of sched_switch: the field is masked, and the table is in a conditional
        // expression.
        let state = r#""%s%s", (REC->prev_state & ((1 | 2) + 1 << 1) - 1) ? __print_flags(REC->prev_state & ((((0x0 | 0x1 | 0x2) + 1) << 1) - 1), "|", { 0x00000001, "S" }, { 0x2, "D" }) : "R", REC->prev_state & 8 ? "+" : """#;
        check(state, "prev_state", 1, Some("S"));
        check(state, "prev_state", 3, Some("S|D"));
        check(state, "prev_state", 0x107, Some("S|D|0x4"));
        check(state, "prev_state", 0, Some(""));
        let gfp = r#""%s", (REC->gfp) ? __print_flags(REC->gfp, "|", {( unsigned long)((( gfp_t)(1UL << 3)) | (( gfp_t)0x40u)), "GFP_X"}, {(unsigned long)(( gfp_t)1), "A"}) : "none""#;
        check(gfp, "gfp", 0x49, Some("GFP_X|A"));
        // A value that the kernel did not resolve is omitted; a lookup of two fields is not
        // supported.
        check(r#""%s", __print_symbolic(REC->a, { KERNEL_ENUM, "x" }, { 2, "two" })"#, "a", 2, Some("two"));
        check(r#""%s", __print_symbolic(REC->a + REC->b, { 2, "two" })"#, "a", 2, None);
    }

    #[test]
    fn odd_formats_have_no_tables() {
        let nested =
            format!("\"%d\", __print_symbolic({}1{}, {{1, \"a\"}})", "(".repeat(9999), ")".repeat(9999));
        let chain = format!("\"%d\", __print_symbolic(REC->a{}, {{1, \"a\"}})", "+1".repeat(9999));
        for print in ["", "\"", "\"%s\", __print_flags(", "\"%d\", __print_symbolic(REC", &nested, &chain] {
            assert!(tables(print).is_empty(), "{print:.40}");
        }
    }
}
