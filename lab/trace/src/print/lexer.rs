//! The tokens of a `print fmt:` line, which is a list of C expressions.

/// One token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Number(i128),
    /// A string, escapes resolved.
    Text(String),
    /// A name or keyword.
    Word(String),
    /// An operator or a bracket.
    Mark(&'static str),
}

/// Operators and brackets, longer ones first.
const MARKS: [&str; 31] = [
    "->", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "(", ")", "[", "]", "{", "}", ",", "?", ":", "+",
    "-", "*", "/", "%", "<", ">", "&", "|", "^", "~", "!", ".",
];

/// Splits `text` into tokens; `None` if a character is not part of any token or a string is not
/// terminated.
pub(super) fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, after) = match first {
            '"' => string(&rest[1..])?,
            '\'' => character(&rest[1..])?,
            '0'..='9' => number(rest)?,
            c if c.is_ascii_alphabetic() || c == '_' => {
                let (word, after) = split(rest, |c| c.is_ascii_alphanumeric() || c == '_');
                (Token::Word(word.to_owned()), after)
            }
            _ => {
                let mark = MARKS.into_iter().find(|mark| rest.starts_with(mark))?;
                (Token::Mark(mark), &rest[mark.len()..])
            }
        };
        tokens.push(token);
        rest = after.trim_start();
    }
    Some(tokens)
}

fn split(text: &str, keep: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !keep(c)).unwrap_or(text.len()))
}

fn number(text: &str) -> Option<(Token, &str)> {
    let (word, after) = split(text, |c| c.is_ascii_alphanumeric());
    let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
    let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16),
        None if digits.len() > 1 && digits.starts_with('0') => u64::from_str_radix(digits, 8),
        None => digits.parse(),
    };
    Some((Token::Number(i128::from(value.ok()?)), after))
}

/// Reads a string after its opening quote.
fn string(text: &str) -> Option<(Token, &str)> {
    let mut out = String::new();
    let mut rest = text;
    loop {
        let c = rest.chars().next()?;
        rest = &rest[c.len_utf8()..];
        match c {
            '"' => return Some((Token::Text(out), rest)),
            '\\' => rest = escape(rest, &mut out)?,
            c => out.push(c),
        }
    }
}

fn character(text: &str) -> Option<(Token, &str)> {
    let mut out = String::new();
    let rest = match text.strip_prefix('\\') {
        Some(rest) => escape(rest, &mut out)?,
        None => {
            let c = text.chars().next()?;
            out.push(c);
            &text[c.len_utf8()..]
        }
    };
    Some((Token::Number(i128::from(u32::from(out.chars().next()?))), rest.strip_prefix('\'')?))
}

/// Reads an escape sequence after its backslash.
fn escape<'a>(text: &'a str, out: &mut String) -> Option<&'a str> {
    let c = text.chars().next()?;
    let rest = &text[c.len_utf8()..];
    match c {
        'n' => out.push('\n'),
        't' => out.push('\t'),
        'r' => out.push('\r'),
        'x' => {
            let (digits, after) = split(rest, |c| c.is_ascii_hexdigit());
            out.push(char::from(u8::from_str_radix(digits, 16).ok()?));
            return Some(after);
        }
        '0'..='7' => {
            let (digits, after) = split(text, |c| c.is_digit(8));
            out.push(char::from(u8::from_str_radix(digits, 8).ok()?));
            return Some(after);
        }
        c => out.push(c),
    }
    Some(rest)
}
