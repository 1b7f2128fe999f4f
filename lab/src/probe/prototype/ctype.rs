//! The types of a prototype's parameters, and what a fetch arg calls them.

use super::{At, PathError};
use crate::scenario::nearest;

/// Numbers: what they are called, the format of a fetch arg, and how many bytes they have on arm64, where
/// a plain `char` has no sign.
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

/// Texts: what they are called, and whether they are the user's.
const TEXTS: [(&str, bool); 2] = [("string", false), ("ustring", true)];

/// The kernel takes so many elements of an array (MAX_ARRAY_LEN).
const ELEMENTS_MAX: u64 = 64;

/// The type of a parameter's field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CType {
    kind: Kind,
    /// Whether it is in the user's memory.
    user: bool,
    count: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Number { format: &'static str, size: u64 },
    Text,
}

impl CType {
    /// The type of these words, `char` or `struct file`, with so many stars and elements.
    pub(super) fn new(words: &[&str], stars: usize, count: Option<u64>, at: &At) -> Result<CType, PathError> {
        let fails = |message: String| Err(PathError { message, at: at.clone() });
        let user = words.contains(&"__user");
        let words: Vec<&str> = words.iter().copied().filter(|word| !IGNORED.contains(word)).collect();
        let name = words.join(" ");
        let pointer = Kind::Number { format: "x64", size: 8 };
        let text = TEXTS.iter().find(|(known, _)| *known == name);
        let number = NUMBERS.iter().find(|(known, ..)| *known == name);
        let kind = match (stars, text, number) {
            (0, Some(&(_, user)), _) if count.is_none() => {
                return Ok(CType { kind: Kind::Text, user, count });
            }
            (0, Some(_), _) => return fails(format!("no arrays of `{name}`")),
            (0, _, Some(&(_, format, size))) => Kind::Number { format, size },
            (1, ..) if name == "char" && count.is_none() => Kind::Text,
            (1.., ..) => pointer,
            _ if ["struct", "union", "enum"].contains(&words.first().copied().unwrap_or_default()) => {
                return fails(format!("`{name}` is in no register, expected a pointer to it"));
            }
            _ => {
                let known = NUMBERS.iter().map(|(known, ..)| *known).chain(TEXTS.map(|(known, _)| known));
                let near = nearest(&name, known).map(|near| format!("; the nearest is `{near}`"));
                return fails(format!("unknown type `{name}`{}", near.unwrap_or_default()));
            }
        };
        if let Some(count) = count.filter(|count| !(1..=ELEMENTS_MAX).contains(count)) {
            return fails(format!("an array of {count}, expected 1 to {ELEMENTS_MAX}"));
        }
        // A pointer to the user's memory is itself in a register.
        Ok(CType { kind, user: user && (stars == 0 || kind == Kind::Text), count })
    }

    /// As a fetch arg calls it.
    pub(super) fn format(self) -> String {
        match (self.kind, self.count) {
            (Kind::Text, _) if self.user => "ustring".to_owned(),
            (Kind::Text, _) => "string".to_owned(),
            (Kind::Number { format, .. }, None) => format.to_owned(),
            (Kind::Number { format, .. }, Some(count)) => format!("{format}[{count}]"),
        }
    }

    /// How many bytes one of them has.
    pub(super) fn size(self) -> u64 {
        match self.kind {
            Kind::Number { size, .. } => size,
            Kind::Text => 1,
        }
    }

    /// Whether it does not fit into a register, so that the parameter says where it is.
    pub(super) fn is_in_memory(self) -> bool {
        self.kind == Kind::Text || self.count.is_some()
    }

    pub(super) fn is_user(self) -> bool {
        self.user
    }
}

/// What says nothing of how a value is fetched.
const IGNORED: [&str; 3] = ["const", "volatile", "__user"];
