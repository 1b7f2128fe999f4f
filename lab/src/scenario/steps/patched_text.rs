//! `text:`, checks of instructions of the running kernel: their places, and what they must be.

use crate::scenario::{
    Amount,
    read::{
        keyed::verb_keyed,
        locate::{PathSegment, Problem},
        scalar::{FromText, from_text},
    },
    values::{
        instruction::{InstructionPattern, InstructionPatterns},
        names::{ArgName, Line, ProbePoint},
    },
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Reads instructions of the running kernel. Without a check it only stores them, for a later
/// `unchanged`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchedText {
    /// The instructions to read.
    pub text: TextPlace,
    /// The expected instructions, one or a list: `nop`, `b SYMBOL+OFFSET`, `bl`, `brk 0x4`,
    /// `unchanged`, `original`, or a number.
    #[serde(default)]
    pub is: Option<InstructionPatterns>,
    /// The ftrace_ops that a `call_ops` literal must point to, by its symbol.
    #[serde(default)]
    pub ops: Option<Line>,
    /// The function that the ftrace_ops of a `call_ops` literal must call, by its symbol.
    #[serde(default)]
    pub func: Option<Line>,
    /// Number of places. Default: at least one.
    #[serde(default)]
    pub sites: Option<Amount>,
    /// Saves the result for later steps: `${NAME}` is the address of the first place, `${NAME_words}`
    /// its instructions, eight hexadecimal digits each, and `${NAME_to}` the target of its branch.
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
        /// `ftrace_site: vfs_write`, or `ftrace_site: "*"`
        "ftrace_site" => FtraceSiteOf,
        /// `call_ops: vfs_write`
        "call_ops" => CallOps,
        /// `kprobe: vfs_write`
        "kprobe" => KprobeAt,
        /// `slot: vfs_write`
        "slot" => KprobeSlot,
    }
}

/// Selects as many instructions as `is` lists.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Instructions {
    /// The place: a symbol, `SYMBOL+OFFSET`, `MODULE:SYMBOL` or an address.
    pub at: ProbePoint,
}

/// Selects the patch sites of a static key, one instruction each, except sites in init code, whose
/// memory is freed.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeySites {
    /// The static key, or the object that contains it, such as `__tracepoint_sched_switch`; `*` stands
    /// for all keys.
    pub key: Line,
    /// Selects only sites in this function.
    #[serde(default, rename = "in")]
    pub within: Option<ProbePoint>,
    /// Excludes the sites of these keys.
    #[serde(default)]
    pub except: Vec<Line>,
}

/// Selects the two instructions of a function's ftrace patch site.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FtraceSiteOf {
    /// The function. `*` stands for all that the kernel has a record of, also in modules. Each must then be
    /// as its record says: two NOPs (the first is `mov x9, x30`) or a call, and its call_ops literal, if
    /// there is one, must point to the right ftrace_ops. With `is: enabled` or `is: disabled`, all records
    /// must be in that state.
    pub ftrace_site: TracedFunction,
}

/// A function, or all that ftrace has a record of.
#[derive(Clone, Debug, PartialEq)]
pub enum TracedFunction {
    /// `*`
    All,
    /// `vfs_write`
    One(ProbePoint),
}

impl FromText for TracedFunction {
    const EXPECTED: &'static str = "a function, or `*` for all";

    fn from_text(text: &str) -> Result<TracedFunction, String> {
        if text == "*" {
            Ok(TracedFunction::All)
        } else {
            ProbePoint::from_text(text).map(TracedFunction::One)
        }
    }
}

from_text!(TracedFunction, {
    "type": "string",
    "pattern": "^(\\*|[A-Za-z0-9_.$:]+(\\+(0x)?[0-9A-Fa-f]+)?)$",
    "examples": ["vfs_write", "*", "ext4:ext4_file_open"],
});

/// Selects the call_ops literal of a function: the 8 bytes before it that point to its ftrace_ops, on
/// kernels with CALL_OPS.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallOps {
    /// The function.
    pub call_ops: ProbePoint,
}

/// Selects the instruction at a kprobe, which must be registered.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KprobeAt {
    /// The kprobe: a symbol, `SYMBOL+OFFSET`, `MODULE:SYMBOL` or an address.
    pub kprobe: ProbePoint,
}

/// Selects the slot of a kprobe: the copy of the instruction that it executes out of line, and the
/// `brk 0x6` after it.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KprobeSlot {
    /// The kprobe: a symbol, `SYMBOL+OFFSET`, `MODULE:SYMBOL` or an address.
    pub slot: ProbePoint,
}

impl TextPlace {
    /// Returns whether it is all of ftrace's records.
    pub(crate) fn is_all_records(&self) -> bool {
        matches!(self, TextPlace::FtraceSiteOf(FtraceSiteOf { ftrace_site: TracedFunction::All }))
    }

    /// Returns the number of instructions of one place, if it does not depend on `is`.
    fn length(&self) -> Option<usize> {
        match self {
            TextPlace::Instructions(_) | TextPlace::KprobeSlot(_) => None,
            TextPlace::KeySites(_) | TextPlace::KprobeAt(_) => Some(1),
            TextPlace::FtraceSiteOf(_) | TextPlace::CallOps(_) => Some(2),
        }
    }
}

impl PatchedText {
    /// Returns the number of instructions of one place.
    pub fn length(&self) -> usize {
        let words = self.is.as_ref().map_or(1, |is| is.0.len());
        self.text.length().unwrap_or(words)
    }

    /// Returns the expected instruction at `index` of a place.
    pub fn word(&self, index: usize) -> Option<&InstructionPattern> {
        let words = &self.is.as_ref()?.0;
        words.get(index).or_else(|| words.first().filter(|word| words.len() == 1 && word.is_relative()))
    }

    fn check_all_records(&self) -> Result<(), (&'static str, &'static str)> {
        if self.name.is_some() {
            return Err(("as", "a name for all ftrace sites, expected one function"));
        }
        match &self.is {
            Some(InstructionPatterns(words)) if !matches!(words[..], [InstructionPattern::Key { .. }]) => {
                Err((
                    "is",
                    "an instruction of all ftrace sites, expected `enabled` or `disabled`, or no `is`",
                ))
            }
            _ => Ok(()),
        }
    }

    /// Checks the keys of the step against each other.
    pub(in crate::scenario) fn check(&self, path: &[PathSegment]) -> Result<(), Problem> {
        let problem =
            |key, message: String| Err(Problem { path: [path, &[PathSegment::Key(key)]].concat(), message });
        let call_ops = matches!(self.text, TextPlace::CallOps(_));
        for (key, value) in [("ops", &self.ops), ("func", &self.func)] {
            if value.is_some() && !call_ops {
                return problem(
                    key,
                    format!("`{key}` of `{}`, expected `text: {{ call_ops: … }}`", self.text.verb()),
                );
            }
        }
        if self.text.is_all_records() {
            return self.check_all_records().or_else(|(key, message)| problem(key, message.to_owned()));
        }
        if self.sites.is_some() && !matches!(self.text, TextPlace::KeySites(_)) {
            return problem(
                "sites",
                format!("sites of `{}`, expected `text: {{ key: … }}`", self.text.verb()),
            );
        }
        let Some(InstructionPatterns(words)) = &self.is else { return Ok(()) };
        let of_a_key = |word: &InstructionPattern| matches!(word, InstructionPattern::Key { .. });
        if words.iter().any(of_a_key) && !matches!(self.text, TextPlace::KeySites(_)) {
            let message =
                format!("`enabled` or `disabled` of `{}`, expected `text: {{ key: … }}`", self.text.verb());
            return problem("is", message);
        }
        if call_ops && !words.iter().all(InstructionPattern::is_relative) {
            let message =
                "an instruction in place of a pointer, expected `unchanged` or `original`, or `ops: SYMBOL`";
            return problem("is", message.to_owned());
        }
        if matches!(self.text, TextPlace::KprobeSlot(_)) && words.iter().any(InstructionPattern::is_relative)
        {
            let message = "`original` or `unchanged` of `slot`, expected the instructions";
            return problem("is", message.to_owned());
        }
        let one_for_all = words.len() == 1 && words.iter().all(InstructionPattern::is_relative);
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

    fn parse(fields: &str) -> Result<PatchedText, String> {
        let yaml = format!("summary: x\nsteps: [ {{ text: {fields} }} ]");
        let scenario = Scenario::parse(Path::new("x.yaml"), &yaml).map_err(|error| error.to_string())?;
        match &scenario.steps[0].value {
            Step::PatchedText(step) => Ok(step.clone()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn instructions_are_written_in_words() {
        let check = |is: &str, expect: &[InstructionPattern]| {
            assert_eq!(
                parse(&format!("{{ at: f }}, is: {is}")).unwrap().is,
                Some(InstructionPatterns(expect.to_vec())),
                "{is}"
            );
        };
        let branch = |link, to: Option<&str>| InstructionPattern::Branch {
            link,
            to: to.map(|to| ProbePoint::from_text(to).unwrap()),
        };
        check("nop", &[InstructionPattern::Exactly(0xd503_201f)]);
        check(
            "[ 'mov  x9, x30', bl ftrace_caller ]",
            &[InstructionPattern::Exactly(0xaa1e_03e9), branch(true, Some("ftrace_caller"))],
        );
        check("b", &[branch(false, None)]);
        check("b f+0x10", &[branch(false, Some("f+0x10"))]);
        check(
            "[ 'brk #0x4', brk 5 ]",
            &[InstructionPattern::Exactly(0xd420_0080), InstructionPattern::Exactly(0xd420_00a0)],
        );
        check(
            "[ 0xd503201f, '0xd503201f' ]",
            &[InstructionPattern::Exactly(0xd503_201f), InstructionPattern::Exactly(0xd503_201f)],
        );
        check("original", &[InstructionPattern::Original]);
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
        check("{ call_ops: f }, is: nop", &["an instruction in place of a pointer"]);
        check("{ at: f }, is: enabled", &["expected `text: { key: … }`"]);
        check("{ slot: f }, is: original", &["`original` or `unchanged` of `slot`"]);
        check("{ at: f }, ops: x", &["`ops` of `at`"]);
        check("{ at: f }, sites: 2", &["sites of `at`"]);
        check("{ ftrace_site: f }, sites: 2", &["sites of `ftrace_site`"]);
        check("{ ftrace_site: '*' }, is: [nop, nop]", &["expected `enabled` or `disabled`, or no `is`"]);
        check("{ ftrace_site: '*' }, as: x", &["steps[0].as: a name for all ftrace sites"]);
    }

    #[test]
    fn one_word_for_all_is_for_places_of_any_length() {
        let step = parse("{ ftrace_site: f }, is: unchanged").unwrap();
        assert_eq!((step.length(), step.word(1)), (2, Some(&InstructionPattern::Unchanged)));
        let step = parse("{ at: f }, is: [nop, original]").unwrap();
        assert_eq!(
            (step.length(), step.word(1), step.word(2)),
            (2, Some(&InstructionPattern::Original), None)
        );
        assert_eq!(parse("{ call_ops: f }, ops: ftrace_nop_ops").unwrap().length(), 2);
        let step = parse("{ key: '*', in: f, except: [k] }, is: unchanged, sites: { at_least: 3 }").unwrap();
        assert!(step.sites.unwrap().allows(3) && matches!(step.text, TextPlace::KeySites(_)));
    }
}
