//! Instructions, as `is:` of `text:` expects them.

use crate::{
    arm64,
    scenario::{
        read::{scalar::FromText, shapes::Shapes},
        values::names::ProbePoint,
    },
    words::unknown,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;

/// An expected instruction.
#[derive(Clone, Debug, PartialEq)]
pub enum InstructionPattern {
    /// This instruction.
    Exactly(u32),
    /// A `b`, or a `bl` if `link` is set. Without a target: at a patch site of a static key, a branch
    /// to its jump target, elsewhere a branch to anywhere.
    Branch {
        /// Whether it is a `bl`.
        link: bool,
        /// The target.
        to: Option<ProbePoint>,
    },
    /// The instruction in vmlinux. At places that the boot patches, and in modules: the instruction
    /// before tracing was set up or, if later, when the module had been loaded.
    Original,
    /// The instruction when a step last read it, else before tracing was set up or, if later, when the
    /// module had been loaded.
    Unchanged,
    /// The instruction of a jump label while its key is enabled or disabled.
    Key {
        /// Whether the key is enabled.
        enabled: bool,
    },
}

/// One instruction or more, in the order of their addresses.
#[derive(Clone, Debug, PartialEq)]
pub struct InstructionPatterns(pub Vec<InstructionPattern>);

/// Maximum number of instructions of one place.
const WORDS_MAX: usize = 64;

const EXPECTED: &str = "an instruction such as `nop`, `b vfs_write+0x10`, `bl ftrace_caller`, `brk 0x4`, \
                        or `original`, `unchanged`, `enabled`, `disabled`, or a number, or a list of them";

/// Words that do not name an instruction.
const RELATIVE: [(&str, InstructionPattern); 4] = [
    ("original", InstructionPattern::Original),
    ("unchanged", InstructionPattern::Unchanged),
    ("enabled", InstructionPattern::Key { enabled: true }),
    ("disabled", InstructionPattern::Key { enabled: false }),
];

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

impl InstructionPattern {
    fn parse(text: &str) -> Result<InstructionPattern, String> {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some((_, word)) = RELATIVE.iter().find(|(name, _)| *name == text) {
            return Ok(word.clone());
        }
        if let Some((_, word)) = arm64::NAMED.iter().find(|(name, _)| *name == text) {
            return Ok(InstructionPattern::Exactly(*word));
        }
        if let Some(word) = number(&text) {
            return Ok(InstructionPattern::Exactly(word));
        }
        match text.split_once(' ').unwrap_or((&text, "")) {
            ("b", "") => Ok(InstructionPattern::Branch { link: false, to: None }),
            ("bl", "") => Ok(InstructionPattern::Branch { link: true, to: None }),
            (name @ ("b" | "bl"), to) => {
                Ok(InstructionPattern::Branch { link: name == "bl", to: Some(ProbePoint::from_text(to)?) })
            }
            ("brk", immediate) => {
                let immediate = immediate.trim_start_matches('#');
                let number = number(immediate).and_then(|number| u16::try_from(number).ok());
                let number =
                    number.ok_or_else(|| format!("bad number in `{text}`, expected one as in `brk 0x4`"))?;
                Ok(InstructionPattern::Exactly(arm64::brk(number)))
            }
            _ => {
                let known = RELATIVE.iter().map(|(name, _)| *name).chain(["b", "bl", "brk"]);
                let known: Vec<&str> = known.chain(arm64::NAMED.iter().map(|(name, _)| *name)).collect();
                Err(unknown("instruction", &text, &known))
            }
        }
    }

    /// Returns whether it applies to any number of instructions.
    pub(in crate::scenario) fn is_relative(&self) -> bool {
        matches!(self, InstructionPattern::Original | InstructionPattern::Unchanged)
    }
}

impl<'de> Deserialize<'de> for InstructionPatterns {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<InstructionPatterns, D::Error> {
        Shapes::new(EXPECTED)
            .text(|text| Ok(InstructionPatterns(vec![InstructionPattern::parse(text)?])))
            .number(|word| {
                let exactly = u32::try_from(word);
                let exactly =
                    exactly.map_err(|_| format!("{word:#x} is not an instruction, expected 32 bits"))?;
                Ok(InstructionPatterns(vec![InstructionPattern::Exactly(exactly)]))
            })
            .list(|list: Vec<InstructionPatterns>| {
                let words: Vec<InstructionPattern> =
                    list.into_iter().flat_map(|InstructionPatterns(words)| words).collect();
                if words.is_empty() || words.len() > WORDS_MAX {
                    return Err(format!("{} instructions, expected 1 to {WORDS_MAX}", words.len()));
                }
                Ok(InstructionPatterns(words))
            })
            .read(deserializer)
    }
}

impl JsonSchema for InstructionPatterns {
    fn schema_name() -> Cow<'static, str> {
        "Words".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "An instruction in assembly syntax, `original`, `unchanged`, `enabled`, `disabled`, or a number; or a list.",
            "oneOf": [
                { "type": "string", "examples": ["nop", "b vfs_write+0x10", "bl ftrace_caller", "brk 0x4", "mov x9, x30"] },
                { "type": "integer", "minimum": 0, "maximum": 0xffff_ffff_u32 },
                { "type": "array", "minItems": 1, "items": generator.subschema_for::<InstructionPatterns>() },
            ],
        })
    }
}
