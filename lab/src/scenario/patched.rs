//! `text:`, a look at instructions of the running kernel: which ones, and what they must be.

use super::{
    Amount,
    keyed::verb_keyed,
    locate::{At, Problem},
    names::{ArgName, Line, ProbePoint},
    nearest::unknown,
    text::FromText,
};
use crate::arm64;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{self, SeqAccess, Visitor},
};
use std::{borrow::Cow, fmt};

/// Looks at instructions of the running kernel. Without a check it only remembers them, for
/// `unchanged`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Text {
    /// Which instructions.
    pub text: TextPlace,
    /// What they must be: one instruction or a list, in words, as in `nop`, `b SYMBOL+OFFSET`, `bl`,
    /// `brk 0x4`, `unchanged`, `original`, or as a number.
    #[serde(default)]
    pub is: Option<Words>,
    /// The ftrace_ops that a `call_ops` literal must point to, by its symbol.
    #[serde(default)]
    pub ops: Option<Line>,
    /// The function that the ftrace_ops of a `call_ops` literal must call, by its symbol.
    #[serde(default)]
    pub func: Option<Line>,
    /// How many places there must be. Default: at least one.
    #[serde(default)]
    pub sites: Option<Amount>,
    /// Keeps what was found for later steps: `${NAME}` is the first place's address, `${NAME_words}`
    /// its instructions, eight hexadecimal digits each, and `${NAME_to}` where its branch goes.
    #[serde(default, rename = "as")]
    pub name: Option<ArgName>,
}

verb_keyed! {
    /// Instructions of the running kernel.
    pub enum TextPlace is "text" {
        /// `at: vfs_write+4`
        "at" => Instructions,
        /// `key: __tracepoint_sched_switch`
        "key" => KeySites,
        /// `ftrace_site: vfs_write`
        "ftrace_site" => FtraceSiteOf,
        /// `call_ops: vfs_write`
        "call_ops" => CallOps,
        /// `kprobe: vfs_write`
        "kprobe" => KprobeAt,
        /// `slot: vfs_write`
        "slot" => KprobeSlot,
    }
}

/// As many instructions as `is` has words.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Instructions {
    /// A symbol, SYMBOL+OFFSET, MODULE:SYMBOL or an address.
    pub at: ProbePoint,
}

/// The instructions that a static key rewrites, one a site. Those of init are not among them, whose
/// memory is given back.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeySites {
    /// The key, or what it is in, as `__tracepoint_sched_switch`; `*` is all there are.
    pub key: Line,
    /// Only sites in this function.
    #[serde(default, rename = "in")]
    pub within: Option<ProbePoint>,
    /// Not the sites of these keys.
    #[serde(default)]
    pub except: Vec<Line>,
}

/// The two instructions that ftrace patches in a function.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FtraceSiteOf {
    /// The function.
    pub ftrace_site: ProbePoint,
}

/// The 8 bytes before a function that say which ftrace_ops it calls, in kernels with CALL_OPS.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallOps {
    /// The function.
    pub call_ops: ProbePoint,
}

/// The instruction of a kprobe, which must be registered.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KprobeAt {
    /// Where the kprobe is: a symbol, SYMBOL+OFFSET, MODULE:SYMBOL or an address.
    pub kprobe: ProbePoint,
}

/// The copy that a kprobe executes out of line, and the `brk 0x6` behind it.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KprobeSlot {
    /// Where the kprobe is: a symbol, SYMBOL+OFFSET, MODULE:SYMBOL or an address.
    pub slot: ProbePoint,
}

/// What an instruction must be.
#[derive(Clone, Debug, PartialEq)]
pub enum Word {
    /// This one.
    Exactly(u32),
    /// A `b`, or a `bl` where `link`. Without a place: at a jump label to where it goes, else to
    /// anywhere.
    Branch {
        /// Whether it is a `bl`.
        link: bool,
        /// Where it goes.
        to: Option<ProbePoint>,
    },
    /// As in vmlinux; where the boot patches, and in modules, as before the trace was armed or when
    /// the module had been loaded.
    Original,
    /// As when a step last looked, else as before the trace was armed or when the module had been
    /// loaded.
    Unchanged,
    /// As a jump label is while its key is enabled, or while it is not.
    Key {
        /// While it is enabled.
        enabled: bool,
    },
}

/// One word or more, in the order of their addresses.
#[derive(Clone, Debug, PartialEq)]
pub struct Words(pub Vec<Word>);

/// As many words as one place may have.
const WORDS_MAX: usize = 64;

const EXPECTED: &str = "an instruction such as `nop`, `b vfs_write+0x10`, `bl ftrace_caller`, `brk 0x4`, \
                        or `original`, `unchanged`, `enabled`, `disabled`, or a number";

/// Words that are no instructions.
const RELATIVE: [(&str, Word); 4] = [
    ("original", Word::Original),
    ("unchanged", Word::Unchanged),
    ("enabled", Word::Key { enabled: true }),
    ("disabled", Word::Key { enabled: false }),
];

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

impl Word {
    fn parse(text: &str) -> Result<Word, String> {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some((_, word)) = RELATIVE.iter().find(|(name, _)| *name == text) {
            return Ok(word.clone());
        }
        if let Some((_, word)) = arm64::NAMED.iter().find(|(name, _)| *name == text) {
            return Ok(Word::Exactly(*word));
        }
        if let Some(word) = number(&text) {
            return Ok(Word::Exactly(word));
        }
        match text.split_once(' ').unwrap_or((&text, "")) {
            ("b", "") => Ok(Word::Branch { link: false, to: None }),
            ("bl", "") => Ok(Word::Branch { link: true, to: None }),
            (name @ ("b" | "bl"), to) => {
                Ok(Word::Branch { link: name == "bl", to: Some(ProbePoint::from_text(to)?) })
            }
            ("brk", immediate) => {
                let immediate = immediate.trim_start_matches('#');
                let number = number(immediate).and_then(|number| u16::try_from(number).ok());
                let number =
                    number.ok_or_else(|| format!("bad number in `{text}`, expected one as in `brk 0x4`"))?;
                Ok(Word::Exactly(arm64::brk(number)))
            }
            _ => {
                let known = RELATIVE.iter().map(|(name, _)| *name).chain(["b", "bl", "brk"]);
                let known: Vec<&str> = known.chain(arm64::NAMED.iter().map(|(name, _)| *name)).collect();
                Err(unknown("instruction", &text, &known))
            }
        }
    }

    /// Whether it says something of however many instructions there are.
    fn is_relative(&self) -> bool {
        matches!(self, Word::Original | Word::Unchanged)
    }
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Words, D::Error> {
        struct OneOrMore;
        impl<'de> Visitor<'de> for OneOrMore {
            type Value = Words;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, "{EXPECTED}, or a list of them")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Words, E> {
                Ok(Words(vec![Word::parse(text).map_err(E::custom)?]))
            }

            fn visit_u64<E: de::Error>(self, word: u64) -> Result<Words, E> {
                let word = u32::try_from(word)
                    .map_err(|_| E::custom(format!("{word:#x} is no instruction, expected 32 bits")))?;
                Ok(Words(vec![Word::Exactly(word)]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Words, A::Error> {
                let mut words = Vec::new();
                while let Some(Words(one)) = list.next_element()? {
                    words.extend(one);
                }
                if words.is_empty() || words.len() > WORDS_MAX {
                    let message = format!("{} instructions, expected 1 to {WORDS_MAX}", words.len());
                    return Err(de::Error::custom(message));
                }
                Ok(Words(words))
            }
        }
        deserializer.deserialize_any(OneOrMore)
    }
}

impl JsonSchema for Words {
    fn schema_name() -> Cow<'static, str> {
        "Words".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "An instruction in words, `original`, `unchanged`, `enabled`, `disabled`, or a number; or a list.",
            "oneOf": [
                { "type": "string", "examples": ["nop", "b vfs_write+0x10", "bl ftrace_caller", "brk 0x4", "mov x9, x30"] },
                { "type": "integer", "minimum": 0, "maximum": 0xffff_ffff_u32 },
                { "type": "array", "minItems": 1, "items": generator.subschema_for::<Words>() },
            ],
        })
    }
}

impl TextPlace {
    /// How many instructions one place has, where it does not depend on what they must be.
    fn length(&self) -> Option<usize> {
        match self {
            TextPlace::Instructions(_) | TextPlace::KprobeSlot(_) => None,
            TextPlace::KeySites(_) | TextPlace::KprobeAt(_) => Some(1),
            TextPlace::FtraceSiteOf(_) | TextPlace::CallOps(_) => Some(2),
        }
    }
}

impl Text {
    /// How many instructions one place has.
    pub fn length(&self) -> usize {
        let words = self.is.as_ref().map_or(1, |is| is.0.len());
        self.text.length().unwrap_or(words)
    }

    /// What instruction number `index` of a place must be.
    pub fn word(&self, index: usize) -> Option<&Word> {
        let words = &self.is.as_ref()?.0;
        words.get(index).or_else(|| words.first().filter(|word| words.len() == 1 && word.is_relative()))
    }

    /// What is wrong with the whole of it.
    pub(super) fn check(&self, path: &[At]) -> Result<(), Problem> {
        let problem = |key, message: String| Err(Problem { path: [path, &[At::Key(key)]].concat(), message });
        let call_ops = matches!(self.text, TextPlace::CallOps(_));
        for (key, value) in [("ops", &self.ops), ("func", &self.func)] {
            if value.is_some() && !call_ops {
                return problem(
                    key,
                    format!("`{key}` of `{}`, expected `text: {{ call_ops: … }}`", self.text.verb()),
                );
            }
        }
        if self.sites.is_some() && !matches!(self.text, TextPlace::KeySites(_)) {
            return problem(
                "sites",
                format!("sites of `{}`, expected `text: {{ key: … }}`", self.text.verb()),
            );
        }
        let Some(Words(words)) = &self.is else { return Ok(()) };
        let of_a_key = |word: &Word| matches!(word, Word::Key { .. });
        if words.iter().any(of_a_key) && !matches!(self.text, TextPlace::KeySites(_)) {
            let message =
                format!("`enabled` or `disabled` of `{}`, expected `text: {{ key: … }}`", self.text.verb());
            return problem("is", message);
        }
        if call_ops && !words.iter().all(Word::is_relative) {
            let message =
                "an instruction where a pointer is, expected `unchanged` or `original`, or `ops: SYMBOL`";
            return problem("is", message.to_owned());
        }
        if matches!(self.text, TextPlace::KprobeSlot(_)) && words.iter().any(Word::is_relative) {
            let message = "`original` or `unchanged` of `slot`, expected the instructions";
            return problem("is", message.to_owned());
        }
        let one_for_all = words.len() == 1 && words.iter().all(Word::is_relative);
        match self.text.length() {
            Some(length) if length != words.len() && !one_for_all => {
                let message =
                    format!("{} instructions of `{}`, expected {length}", words.len(), self.text.verb());
                problem("is", message)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Scenario, Step};
    use std::path::Path;

    fn parse(fields: &str) -> Result<Text, String> {
        let yaml = format!("summary: x\nsteps: [ {{ text: {fields} }} ]");
        let scenario = Scenario::parse(Path::new("x.yaml"), &yaml).map_err(|error| error.to_string())?;
        match &scenario.steps[0].value {
            Step::Text(step) => Ok(step.clone()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn instructions_are_written_in_words() {
        let check = |is: &str, expect: &[Word]| {
            assert_eq!(
                parse(&format!("{{ at: f }}, is: {is}")).unwrap().is,
                Some(Words(expect.to_vec())),
                "{is}"
            );
        };
        let branch = |link, to: Option<&str>| Word::Branch {
            link,
            to: to.map(|to| ProbePoint::from_text(to).unwrap()),
        };
        check("nop", &[Word::Exactly(0xd503_201f)]);
        check(
            "[ 'mov  x9, x30', bl ftrace_caller ]",
            &[Word::Exactly(0xaa1e_03e9), branch(true, Some("ftrace_caller"))],
        );
        check("b", &[branch(false, None)]);
        check("b f+0x10", &[branch(false, Some("f+0x10"))]);
        check("[ 'brk #0x4', brk 5 ]", &[Word::Exactly(0xd420_0080), Word::Exactly(0xd420_00a0)]);
        check("[ 0xd503201f, '0xd503201f' ]", &[Word::Exactly(0xd503_201f), Word::Exactly(0xd503_201f)]);
        check("original", &[Word::Original]);
    }

    #[test]
    fn what_makes_no_sense_is_told_with_what_would() {
        let check = |fields: &str, expect: &[&str]| {
            let error = parse(fields).unwrap_err();
            expect.iter().for_each(|expect| assert!(error.contains(expect), "no `{expect}` in {error}"));
        };
        check("{ at: f }, is: nopp", &["steps[0].is: unknown instruction `nopp`", "did you mean `nop`?"]);
        check("{ at: f }, is: orginal", &["did you mean `original`?"]);
        check("{ at: f }, is: brk x", &["bad number in `brk x`"]);
        check("{ at: f }, is: 0x100000000", &["expected 32 bits"]);
        check("{ at: f }, is: []", &["0 instructions"]);
        check("{ ftrace_sit: f }, is: nop", &["unknown kind of text", "did you mean `ftrace_site`?"]);
        check("{ ftrace_site: f }, is: nop", &["1 instructions of `ftrace_site`", "expected 2"]);
        check("{ key: k }, is: [nop, nop]", &["2 instructions of `key`", "expected 1"]);
        check("{ call_ops: f }, is: nop", &["an instruction where a pointer is"]);
        check("{ at: f }, is: enabled", &["expected `text: { key: … }`"]);
        check("{ slot: f }, is: original", &["`original` or `unchanged` of `slot`"]);
        check("{ at: f }, ops: x", &["`ops` of `at`"]);
        check("{ at: f }, sites: 2", &["sites of `at`"]);
    }

    #[test]
    fn one_word_for_all_is_for_places_of_any_length() {
        let step = parse("{ ftrace_site: f }, is: unchanged").unwrap();
        assert_eq!((step.length(), step.word(1)), (2, Some(&Word::Unchanged)));
        let step = parse("{ at: f }, is: [nop, original]").unwrap();
        assert_eq!((step.length(), step.word(1), step.word(2)), (2, Some(&Word::Original), None));
        assert_eq!(parse("{ call_ops: f }, ops: ftrace_nop_ops").unwrap().length(), 2);
        let step = parse("{ key: '*', in: f, except: [k] }, is: unchanged, sites: { at_least: 3 }").unwrap();
        assert!(step.sites.unwrap().allows(3) && matches!(step.text, TextPlace::KeySites(_)));
    }
}
