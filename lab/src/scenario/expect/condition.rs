//! `where:` conditions: CEL expressions on an event's fields.
//!
//! A condition is parsed once, when its scenario is read. It is split at its outermost `&&`, so that
//! the part that rejected an event can be shown with the event.

use super::comparison::Comparison;
use crate::{
    scenario::{FromText, from_text},
    words::nearest,
};
use cel::{
    common::ast::{Expr, IdedExpr},
    parser::Parser,
};
use std::{fmt, sync::Arc};

/// A parsed CEL expression that is true or false of an event.
#[derive(Clone, Debug)]
pub struct Condition {
    text: String,
    parts: Vec<Conjunct>,
}

/// One operand of the outermost `&&`.
#[derive(Clone, Debug)]
pub(crate) struct Conjunct {
    /// As written.
    pub(crate) text: String,
    pub(crate) expression: Arc<IdedExpr>,
    /// The same as a comparison, if it can be evaluated without CEL.
    pub(crate) comparison: Option<Comparison>,
    /// The fields that it uses, sorted.
    pub(crate) fields: Vec<String>,
    /// The names bound by earlier events that it uses, sorted, without the `$`.
    pub(crate) bound: Vec<String>,
}

/// Replaces the `$` of `$name`, which CEL does not allow in identifiers.
pub(crate) const BOUND_PREFIX: &str = "bound__";

/// The prefix of the variable that replaces `sym(field)`. The event resolves it, since only its trace
/// has the symbols. No field begins with it.
pub(crate) const SYMBOL_PREFIX: &str = "@sym:";

/// The maximum length in bytes, and nesting. The parser recurses into brackets and `? :` with large
/// stack frames: 400 levels overflow a test thread's stack of 2 MiB.
const TEXT_MAX: usize = 1000;
const NESTING_MAX: usize = 16;

/// The reserved words of CEL. Some are names of fields, such as `function` of the timer events. Each
/// is renamed for the parser, and restored in the parsed expression.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "namespace",
    "package",
    "return",
    "var",
    "void",
    "while",
];
const RESERVED_PREFIX: &str = "field__";

/// The functions that a condition can call: the useful ones of CEL, and the lab's.
pub(crate) const FUNCTIONS: [&str; 14] = [
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "int",
    "uint",
    "string",
    "type",
    "double",
    "bytes",
    "sym",
    "bits",
    "dyn",
];

impl Condition {
    /// Returns the condition as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn parts(&self) -> &[Conjunct] {
        &self.parts
    }

    /// Returns the same condition, evaluated by CEL alone.
    #[cfg(test)]
    pub(crate) fn with_cel_only(mut self) -> Condition {
        self.parts.iter_mut().for_each(|part| part.comparison = None);
        self
    }

    /// Returns the fields that it uses.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().flat_map(|part| part.fields.iter().map(String::as_str))
    }

    /// Returns the names that an earlier event must bind: `fd` for `$fd`.
    pub fn bound(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().flat_map(|part| part.bound.iter().map(String::as_str))
    }
}

impl PartialEq for Condition {
    fn eq(&self, other: &Condition) -> bool {
        self.text == other.text
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl FromText for Condition {
    const EXPECTED: &'static str = "a condition such as ret == 8 && comm == \"eventfd\"";

    fn from_text(text: &str) -> Result<Condition, String> {
        if text.len() > TEXT_MAX {
            return Err(format!("condition of {} bytes, expected at most {TEXT_MAX}", text.len()));
        }
        if nesting(text) > NESTING_MAX {
            return Err(format!("condition nested too deeply, expected at most {NESTING_MAX} levels"));
        }
        // The whole text is also parsed, so that an error quotes it as written.
        Conjunct::parse(text)?;
        let parts = conjuncts(text).into_iter().map(Conjunct::parse).collect::<Result<_, _>>()?;
        Ok(Condition { text: text.trim().to_owned(), parts })
    }
}

from_text!(Condition, {
    "type": "string",
    "description": "A CEL condition on the event's fields and pid, cpu, comm, time.",
    "examples": ["ret == 8", "comm == \"eventfd\" && fd > 2", "sym(ip) == \"vfs_write\""],
});

impl Conjunct {
    fn parse(text: &str) -> Result<Conjunct, String> {
        let parsed = Parser::default().parse(&with_cel_names(text));
        let mut expression = parsed.map_err(|errors| {
            let first = errors.errors.first();
            let column = first.map_or(0, |error| error.pos.1);
            let message = first.map_or_else(|| errors.to_string(), |error| error.msg.clone());
            // ANTLR lists every token that could follow; the first words are enough.
            let message = message.split(" expecting ").next().unwrap_or_default();
            let message = message.replace(BOUND_PREFIX, "$").replace(RESERVED_PREFIX, "");
            let hint = if lone_equals(text) { ", expected `==` to compare" } else { "" };
            format!("bad condition `{}`: {message} (column {column}){hint}", text.trim())
        })?;
        let mut names = Names::default();
        names.of(&mut expression, 0)?;
        names.free.sort();
        names.free.dedup();
        let bound = names.free.iter().filter_map(|name| name.strip_prefix(BOUND_PREFIX));
        let bound = bound.map(str::to_owned).collect();
        names.free.retain(|name| !name.starts_with(BOUND_PREFIX));
        Ok(Conjunct {
            text: text.trim().to_owned(),
            comparison: Comparison::of(&expression),
            expression: Arc::new(expression),
            fields: names.free,
            bound,
        })
    }
}

/// The free names of an expression.
#[derive(Default)]
struct Names {
    free: Vec<String>,
    /// The variables of the enclosing comprehensions.
    local: Vec<String>,
}

/// The maximum number of nested comprehensions; with two, the time is at most quadratic.
const COMPREHENSIONS_MAX: usize = 2;

impl Names {
    /// Collects the names of an expression, and replaces each `sym(field)` in it by a variable.
    fn of(&mut self, expression: &mut IdedExpr, depth: usize) -> Result<(), String> {
        match &mut expression.expr {
            Expr::Ident(name) => {
                restore(name);
                if !name.starts_with('@') && !self.local.contains(name) {
                    self.free.push(name.clone());
                }
            }
            Expr::Select(select) => self.of(&mut select.operand, depth)?,
            Expr::Call(call) if call.func_name == "sym" => {
                let field = match call.args.as_mut_slice() {
                    [IdedExpr { expr: Expr::Ident(field), .. }] if call.target.is_none() => {
                        restore(field);
                        field.clone()
                    }
                    _ => return Err("bad use of sym, expected one field, as in `sym(ip)`".to_owned()),
                };
                if self.local.contains(&field) {
                    return Err(format!("`{field}` is not a field, expected one in `sym(…)`"));
                }
                expression.expr = Expr::Ident(format!("{SYMBOL_PREFIX}{field}"));
                self.free.push(field);
            }
            Expr::Call(call) => {
                let name = call.func_name.as_str();
                let operator = !name.starts_with(|c: char| c.is_ascii_alphabetic());
                if !operator && !FUNCTIONS.contains(&name) {
                    let near = nearest(name, FUNCTIONS).unwrap_or("size");
                    return Err(format!(
                        "unknown function `{name}` in a condition, expected one such as `{near}`"
                    ));
                }
                for inner in call.target.as_deref_mut().into_iter().chain(&mut call.args) {
                    self.of(inner, depth)?;
                }
            }
            Expr::List(list) => list.elements.iter_mut().try_for_each(|inner| self.of(inner, depth))?,
            Expr::Comprehension(loops) => {
                if depth == COMPREHENSIONS_MAX {
                    return Err(format!("more than {COMPREHENSIONS_MAX} nested comprehensions"));
                }
                self.of(&mut loops.iter_range, depth)?;
                let before = self.local.len();
                self.local.push(loops.iter_var.clone());
                self.local.extend(loops.iter_var2.clone());
                self.local.push(loops.accu_var.clone());
                let inner =
                    [&mut loops.accu_init, &mut loops.loop_cond, &mut loops.loop_step, &mut loops.result];
                inner.into_iter().try_for_each(|inner| self.of(inner, depth + 1))?;
                self.local.truncate(before);
            }
            Expr::Map(_) | Expr::Struct(_) => {
                return Err("a map in a condition, expected a comparison of fields".to_owned());
            }
            Expr::Literal(_) | Expr::Unspecified => {}
        }
        Ok(())
    }
}

/// Returns `text` with every `$name` and reserved word outside quotes replaced by a valid CEL name.
fn with_cel_names(text: &str) -> String {
    let word_char = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut out = String::with_capacity(text.len());
    for (piece, quoted) in pieces(text) {
        if quoted {
            out.push_str(piece);
            continue;
        }
        let piece = piece.replace('$', BOUND_PREFIX);
        let mut rest = piece.as_str();
        while let Some(first) = rest.chars().next() {
            let end = rest.find(|c| word_char(c) != word_char(first)).unwrap_or(rest.len());
            let (word, behind) = rest.split_at(end);
            if RESERVED.contains(&word) {
                out.push_str(RESERVED_PREFIX);
            }
            out.push_str(word);
            rest = behind;
        }
    }
    out
}

/// Restores a name that was replaced for CEL.
fn restore(name: &mut String) {
    if let Some(word) = name.strip_prefix(RESERVED_PREFIX)
        && RESERVED.contains(&word)
    {
        *name = word.to_owned();
    }
}

/// Returns the operands of the outermost `&&`, or the whole text if the outermost operator is `||` or `?`.
fn conjuncts(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start, mut at) = (0_i32, 0, 0);
    for (piece, quoted) in pieces(text) {
        for (offset, c) in piece.char_indices().filter(|_| !quoted) {
            let rest = &piece[offset..];
            match c {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth -= 1,
                '?' if depth == 0 => return vec![text],
                '|' if depth == 0 && rest.starts_with("||") => return vec![text],
                '&' if depth == 0 && rest.starts_with("&&") => {
                    parts.push(&text[start..at + offset]);
                    start = at + offset + 2;
                }
                _ => {}
            }
        }
        at += piece.len();
    }
    parts.push(&text[start..]);
    parts
}

/// Returns whether there is an `=` that is not part of `==`, `!=`, `<=` or `>=`.
fn lone_equals(text: &str) -> bool {
    let plain = pieces(text).into_iter().filter(|(_, quoted)| !quoted);
    plain.into_iter().any(|(piece, _)| {
        let rest =
            ["==", "!=", "<=", ">="].iter().fold(piece.to_owned(), |text, sign| text.replace(sign, ""));
        rest.contains('=')
    })
}

/// Returns the maximum nesting of brackets and `?`.
fn nesting(text: &str) -> usize {
    let (mut brackets, mut deepest, mut ternaries) = (0_usize, 0, 0);
    for c in pieces(text).into_iter().filter(|(_, quoted)| !quoted).flat_map(|(piece, _)| piece.chars()) {
        match c {
            '(' | '[' | '{' => brackets += 1,
            ')' | ']' | '}' => brackets = brackets.saturating_sub(1),
            '?' => ternaries += 1,
            _ => {}
        }
        deepest = deepest.max(brackets);
    }
    deepest + ternaries
}

/// Splits `text` into quoted and unquoted pieces, in order and complete.
fn pieces(text: &str) -> Vec<(&str, bool)> {
    let mut pieces = Vec::new();
    let (mut start, mut quote, mut escaped) = (0, None, false);
    for (at, c) in text.char_indices() {
        match quote {
            None if c == '"' || c == '\'' => {
                pieces.push((&text[start..at], false));
                (start, quote) = (at, Some(c));
            }
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(end) if c == end => {
                pieces.push((&text[start..at + c.len_utf8()], true));
                (start, quote) = (at + c.len_utf8(), None);
            }
            _ => {}
        }
    }
    pieces.push((&text[start..], quote.is_some()));
    pieces
}

#[cfg(test)]
#[path = "condition_tests.rs"]
mod tests;
