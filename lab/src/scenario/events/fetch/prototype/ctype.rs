//! The types of a prototype's parameters, and their formats in fetch arguments.

use super::{At, PathError};
use crate::words::nearest_is;

/// Numbers: the name, the format in a fetch argument, and the size in bytes on arm64, where a plain `char`
/// is unsigned.
const NUMBERS: [(&str, &str, u64); 33] = [
    ("s8", "s8", 1),
    ("s16", "s16", 2),
    ("s32", "s32", 4),
    ("s64", "s64", 8),
    ("u8", "u8", 1),
    ("u16", "u16", 2),
    ("u32", "u32", 4),
    ("u64", "u64", 8),
    ("x8", "x8", 1),
    ("x16", "x16", 2),
    ("x32", "x32", 4),
    ("x64", "x64", 8),
    ("bool", "u8", 1),
    ("char", "u8", 1),
    ("signed char", "s8", 1),
    ("unsigned char", "u8", 1),
    ("short", "s16", 2),
    ("unsigned short", "u16", 2),
    ("int", "s32", 4),
    ("unsigned", "u32", 4),
    ("unsigned int", "u32", 4),
    ("long", "s64", 8),
    ("unsigned long", "u64", 8),
    ("long long", "s64", 8),
    ("unsigned long long", "u64", 8),
    ("size_t", "u64", 8),
    ("ssize_t", "s64", 8),
    ("loff_t", "s64", 8),
    ("pid_t", "s32", 4),
    ("umode_t", "u16", 2),
    ("gfp_t", "x32", 4),
    ("ptr", "x64", 8),
    ("symbol", "symbol", 8),
];

/// Strings: the name, and whether they are in user memory.
const TEXTS: [(&str, bool); 2] = [("string", false), ("ustring", true)];

/// The maximum number of elements of an array (MAX_ARRAY_LEN).
const ELEMENTS_MAX: u64 = 64;

/// The type of a parameter's field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CType {
    kind: CTypeKind,
    /// Whether it is in user memory.
    user: bool,
    count: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CTypeKind {
    Number { format: &'static str, size: u64 },
    Text,
}

impl CType {
    /// Returns the type with these words, `char` or `struct file`, and this many stars and elements.
    pub(crate) fn new(words: &[&str], stars: usize, count: Option<u64>, at: &At) -> Result<CType, PathError> {
        let fails = |message: String| Err(PathError { message, at: at.clone() });
        let user = words.contains(&"__user");
        let words: Vec<&str> = words.iter().copied().filter(|word| !IGNORED.contains(word)).collect();
        let name = words.join(" ");
        let pointer = CTypeKind::Number { format: "x64", size: 8 };
        let text = TEXTS.iter().find(|(known, _)| *known == name);
        let number = NUMBERS.iter().find(|(known, ..)| *known == name);
        let kind = match (stars, text, number) {
            (0, Some(&(_, user)), _) if count.is_none() => {
                return Ok(CType { kind: CTypeKind::Text, user, count });
            }
            (0, Some(_), _) => return fails(format!("arrays of `{name}` are not supported")),
            (0, _, Some(&(_, format, size))) => CTypeKind::Number { format, size },
            (1, ..) if name == "char" && count.is_none() => CTypeKind::Text,
            (1.., ..) => pointer,
            _ if ["struct", "union", "enum"].contains(&words.first().copied().unwrap_or_default()) => {
                return fails(format!("`{name}` is not in a register, expected a pointer to it"));
            }
            _ => {
                let known = NUMBERS.iter().map(|(known, ..)| *known).chain(TEXTS.map(|(known, _)| known));
                return fails(format!("unknown type `{name}`{}", nearest_is(&name, known)));
            }
        };
        if let Some(count) = count.filter(|count| !(1..=ELEMENTS_MAX).contains(count)) {
            return fails(format!("an array of {count} elements, expected 1 to {ELEMENTS_MAX}"));
        }
        // A pointer to user memory is itself in a register.
        Ok(CType { kind, user: user && (stars == 0 || kind == CTypeKind::Text), count })
    }

    /// Returns its format in a fetch argument.
    pub(crate) fn format(self) -> String {
        match (self.kind, self.count) {
            (CTypeKind::Text, _) if self.user => "ustring".to_owned(),
            (CTypeKind::Text, _) => "string".to_owned(),
            (CTypeKind::Number { format, .. }, None) => format.to_owned(),
            (CTypeKind::Number { format, .. }, Some(count)) => format!("{format}[{count}]"),
        }
    }

    /// Returns its size in bytes; of an array, that of an element.
    pub(crate) fn size(self) -> u64 {
        match self.kind {
            CTypeKind::Number { size, .. } => size,
            CTypeKind::Text => 1,
        }
    }

    /// Returns whether it does not fit into a register, so that the parameter is its address.
    pub(crate) fn is_in_memory(self) -> bool {
        self.kind == CTypeKind::Text || self.count.is_some()
    }

    pub(crate) fn is_user(self) -> bool {
        self.user
    }
}

/// Words that do not affect how a value is fetched.
const IGNORED: [&str; 3] = ["const", "volatile", "__user"];
