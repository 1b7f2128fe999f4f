//! Parses the C expressions of a print format into a tree.

use super::lexer::{Token, tokens};

/// The maximum nesting depth of brackets and operators.
const DEPTH_MAX: usize = 128;
/// The maximum length of a print format, in tokens.
const TOKENS_MAX: usize = 1 << 16;

/// An expression over the fields of one record.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    Number(i128),
    Text(String),
    /// `REC->name`.
    Field(String),
    /// A bare name: the argument of `__get_str`, or an enum that the kernel did not resolve.
    Name(String),
    /// `array[index]`.
    Index(Box<Expression>, Box<Expression>),
    Unary(&'static str, Box<Expression>),
    Binary(&'static str, Box<Expression>, Box<Expression>),
    Choice(Box<Expression>, Box<Expression>, Box<Expression>),
    /// A cast to an integer of this many bits, signed or not; `None` leaves the value unchanged.
    Cast(Option<(u32, bool)>, Box<Expression>),
    Call(String, Vec<Expression>),
    /// `{ value, "name" }`.
    Braces(Vec<Expression>),
}

/// A print format: the format string and the arguments of its conversions.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Format {
    pub(super) text: String,
    pub(super) arguments: Vec<Expression>,
}

impl Format {
    /// Parses the text after `print fmt:`; `None` if this parser does not support it.
    pub(super) fn parse(print: &str) -> Option<Format> {
        let tokens = tokens(print)?;
        if tokens.len() > TOKENS_MAX {
            return None;
        }
        let mut parser = Parser { tokens, at: 0, depth: 0 };
        let Expression::Text(text) = parser.primary()? else { return None };
        let mut arguments = Vec::new();
        while parser.eat(",") {
            arguments.push(parser.expression()?);
        }
        (parser.at == parser.tokens.len()).then_some(Format { text, arguments })
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

/// Binary operators and their precedence.
const BINARY: [(&str, u8); 18] = [
    ("||", 1),
    ("&&", 2),
    ("|", 3),
    ("^", 4),
    ("&", 5),
    ("==", 6),
    ("!=", 6),
    ("<", 7),
    ("<=", 7),
    (">", 7),
    (">=", 7),
    ("<<", 8),
    (">>", 8),
    ("+", 9),
    ("-", 9),
    ("*", 10),
    ("/", 10),
    ("%", 10),
];

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn eat(&mut self, mark: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Mark(m)) if *m == mark);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, mark: &str) -> Option<()> {
        self.eat(mark).then_some(())
    }

    fn word(&mut self) -> Option<String> {
        let Token::Word(word) = self.peek()? else { return None };
        let word = word.clone();
        self.at += 1;
        Some(word)
    }

    fn expression(&mut self) -> Option<Expression> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let condition = self.binary(1)?;
        let whole = if self.eat("?") {
            let yes = self.expression()?;
            self.expect(":")?;
            let no = self.expression()?;
            Expression::Choice(Box::new(condition), Box::new(yes), Box::new(no))
        } else {
            condition
        };
        self.depth -= 1;
        Some(whole)
    }

    fn binary(&mut self, weakest: u8) -> Option<Expression> {
        let mut left = self.unary()?;
        // The tree leans to the left and is as deep as the chain is long, so chains also count.
        let depth = self.depth;
        while let Some(Token::Mark(mark)) = self.peek() {
            let Some(&(operator, binds)) = BINARY.iter().find(|(operator, _)| operator == mark) else {
                break;
            };
            if binds < weakest {
                break;
            }
            self.at += 1;
            self.depth += 1;
            if self.depth > DEPTH_MAX {
                return None;
            }
            let right = self.binary(binds + 1)?;
            left = Expression::Binary(operator, Box::new(left), Box::new(right));
        }
        self.depth = depth;
        Some(left)
    }

    fn unary(&mut self) -> Option<Expression> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let mut found = None;
        for operator in ["-", "~", "!", "+", "&", "*"] {
            if self.eat(operator) {
                found = Some(Expression::Unary(operator, Box::new(self.unary()?)));
                break;
            }
        }
        let whole = match found {
            Some(unary) => unary,
            None => match self.cast() {
                Some(to) => Expression::Cast(to, Box::new(self.unary()?)),
                None => self.postfix()?,
            },
        };
        self.depth -= 1;
        Some(whole)
    }

    /// Parses a type in brackets that a value follows. Consumes all of it or nothing.
    fn cast(&mut self) -> Option<Option<(u32, bool)>> {
        let start = self.at;
        let mut words = Vec::new();
        let mut pointer = false;
        if self.eat("(") {
            while let Some(word) = self.word() {
                words.push(word);
            }
            while self.eat("*") {
                pointer = true;
            }
        }
        let value_follows = |token: Option<&Token>| match token {
            Some(Token::Mark(mark)) => matches!(*mark, "(" | "-" | "~" | "!"),
            other => other.is_some(),
        };
        if words.is_empty() || words[0] == "REC" || !self.eat(")") || !value_follows(self.peek()) {
            self.at = start;
            return None;
        }
        Some(if pointer { Some((64, false)) } else { width(&words.join(" ")) })
    }

    fn postfix(&mut self) -> Option<Expression> {
        let mut value = self.primary()?;
        // No format goes beyond an array of arrays.
        for _ in 0..2 {
            if !self.eat("[") {
                break;
            }
            let index = self.expression()?;
            self.expect("]")?;
            value = Expression::Index(Box::new(value), Box::new(index));
        }
        Some(value)
    }

    fn primary(&mut self) -> Option<Expression> {
        if self.eat("(") {
            let inner = self.expression()?;
            self.expect(")")?;
            return Some(inner);
        }
        if self.eat("{") {
            let inner = self.list("}")?;
            return Some(Expression::Braces(inner));
        }
        match self.peek()?.clone() {
            Token::Number(number) => {
                self.at += 1;
                Some(Expression::Number(number))
            }
            Token::Text(mut text) => {
                self.at += 1;
                // Adjacent strings are one string.
                while let Some(Token::Text(more)) = self.peek() {
                    text.push_str(more);
                    self.at += 1;
                }
                Some(Expression::Text(text))
            }
            Token::Word(word) => {
                self.at += 1;
                if word == "REC" {
                    self.expect("->")?;
                    return Some(Expression::Field(self.word()?));
                }
                if self.eat("(") {
                    return Some(Expression::Call(word, self.list(")")?));
                }
                Some(Expression::Name(word))
            }
            Token::Mark(_) => None,
        }
    }

    /// Parses comma-separated expressions up to `end`. A trailing comma is allowed.
    fn list(&mut self, end: &str) -> Option<Vec<Expression>> {
        let mut items = Vec::new();
        while !self.eat(end) {
            items.push(self.expression()?);
            if !self.eat(",") {
                self.expect(end)?;
                break;
            }
        }
        Some(items)
    }
}

/// Returns bits and sign of an integer type; `None` for a type that this parser does not know.
pub(super) fn width(type_name: &str) -> Option<(u32, bool)> {
    Some(match type_name {
        "u8" | "__u8" | "unsigned char" | "uint8_t" => (8, false),
        "s8" | "__s8" | "char" | "signed char" => (8, true),
        "u16" | "__u16" | "unsigned short" | "uint16_t" => (16, false),
        "s16" | "__s16" | "short" => (16, true),
        "u32" | "__u32" | "unsigned int" | "unsigned" | "uint32_t" | "gfp_t" => (32, false),
        "s32" | "__s32" | "int" | "pid_t" => (32, true),
        "u64" | "__u64" | "unsigned long" | "unsigned long long" | "size_t" | "sector_t" => (64, false),
        "s64" | "__s64" | "long" | "long long" | "loff_t" => (64, true),
        _ => return None,
    })
}
