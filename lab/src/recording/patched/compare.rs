//! An instruction as it is, as it was and as it must be.

use super::places::Place;
use crate::{arm64, scenario::Word, trace::Symbols};
use std::fmt;

/// What is known of one instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Looked {
    /// What it is; `None` if it cannot be read.
    pub(super) found: Option<u32>,
    /// What it was when a step last looked, or before the trace was armed.
    pub(super) before: Option<u32>,
    /// What nobody had patched yet.
    pub(super) original: Option<u32>,
}

/// What an instruction may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    Exactly(u32),
    /// Any `b`, or any `bl`.
    Any {
        link: bool,
    },
    /// Nothing can be, and why.
    Unknown(String),
}

/// An instruction beside what it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) address: u64,
    /// `None` if it may be anything.
    pub(super) expected: Option<Expected>,
    pub(super) looked: Looked,
    /// Whether it is what it must be.
    pub(super) holds: bool,
}

/// Compares an instruction at `address` with what it must be. `resolve` finds symbols.
pub(super) fn compare(
    word: &Word,
    place: &Place,
    address: u64,
    looked: &Looked,
    resolve: impl Fn(&str) -> Result<u64, String>,
) -> Difference {
    let expected = expected(word, place, address, looked, resolve);
    let holds = match (&expected, looked.found) {
        (_, None) | (Expected::Unknown(_), _) => false,
        (Expected::Exactly(word), Some(found)) => *word == found,
        (Expected::Any { link: true }, Some(found)) => arm64::is_branch_link(found),
        (Expected::Any { link: false }, Some(found)) => arm64::is_branch(found),
    };
    Difference { address, expected: Some(expected), looked: *looked, holds }
}

/// What is not one word.
impl fmt::Display for Expected {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expected::Exactly(word) => write!(out, "{word:08x}"),
            Expected::Any { link } => write!(out, "any `{}`", if *link { "bl" } else { "b" }),
            Expected::Unknown(reason) => out.write_str(reason),
        }
    }
}

fn expected(
    word: &Word,
    place: &Place,
    address: u64,
    looked: &Looked,
    resolve: impl Fn(&str) -> Result<u64, String>,
) -> Expected {
    let known = |word: Option<u32>, what: &str| match word {
        Some(word) => Expected::Exactly(word),
        None => Expected::Unknown(format!("nobody looked at what it {what}")),
    };
    match (word, &place.jump) {
        (Word::Exactly(word), _) => Expected::Exactly(*word),
        (Word::Original, _) => known(looked.original, "was at first"),
        (Word::Unchanged, _) => known(looked.before, "was before"),
        (Word::Key { enabled }, Some(jump)) => Expected::Exactly(jump.instruction(*enabled)),
        (Word::Key { .. }, None) => Expected::Unknown("it is no jump label".to_owned()),
        (Word::Branch { link: false, to: None }, Some(jump)) => {
            Expected::Exactly(arm64::branch(address, jump.target))
        }
        (Word::Branch { link, to: None }, _) => Expected::Any { link: *link },
        (Word::Branch { link, to: Some(to) }, _) => match resolve(to) {
            Ok(target) if *link => Expected::Exactly(arm64::branch_link(address, target)),
            Ok(target) => Expected::Exactly(arm64::branch(address, target)),
            Err(reason) => Expected::Unknown(reason),
        },
    }
}

impl Difference {
    /// Before, expected and found, one below the other.
    pub(super) fn shown(&self, symbols: &Symbols) -> String {
        let address = self.address;
        let line = |word: Option<u32>| match word {
            Some(word) => arm64::shown(address, word, symbols),
            None => "not known".to_owned(),
        };
        let expected = match &self.expected {
            None => "anything".to_owned(),
            Some(Expected::Exactly(word)) => line(Some(*word)),
            Some(other) => other.to_string(),
        };
        let found = match self.looked.found {
            Some(word) => line(Some(word)),
            None => "it cannot be read".to_owned(),
        };
        let place = symbols.resolve(address).map(|symbol| format!("{symbol}, ")).unwrap_or_default();
        format!(
            "another instruction at {place}{address:#x}\n  before    {}\n  expected  {expected}\n  found     {found}",
            line(self.looked.before)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        kernel::text::JumpEntry,
        scenario::{FromText, ProbePoint},
    };

    const AT: u64 = 0x1040;

    fn check(word: Word, place: Place, found: u32, expect: Option<&str>) {
        let symbols = Symbols::parse("0000000000001000 T f\n0000000000002000 T g\n".into());
        let looked = Looked { found: Some(found), before: Some(arm64::NOP), original: Some(0xaa1e_03e9) };
        let resolve = |name: &str| symbols.address(name).ok_or_else(|| format!("`{name}` is no symbol"));
        let difference = compare(&word, &place, AT, &looked, resolve);
        let shown = (!difference.holds).then(|| difference.shown(&symbols));
        assert_eq!(shown.is_some(), expect.is_some(), "{word:?}: {shown:?}");
        let (shown, expect) = (shown.unwrap_or_default(), expect.unwrap_or_default());
        assert!(shown.contains(expect), "no `{expect}` in {shown}");
    }

    #[test]
    fn each_kind_of_expectation_can_hold_and_not_hold() {
        let bare = Place { address: AT, jump: None };
        let to = |link, to: &str| Word::Branch { link, to: Some(ProbePoint::from_text(to).unwrap()) };
        let any = |link| Word::Branch { link, to: None };
        check(Word::Exactly(arm64::NOP), bare, arm64::NOP, None);
        check(
            Word::Exactly(arm64::NOP),
            bare,
            arm64::branch(AT, 0x2004),
            Some(
                "another instruction at f+0x40, 0x1040\n  before    d503201f  nop\n  \
                 expected  d503201f  nop\n  found     140003f1  b g+0x4",
            ),
        );
        check(to(true, "g"), bare, arm64::branch_link(AT, 0x2000), None);
        check(to(true, "g"), bare, arm64::branch_link(AT, 0x2004), Some("expected  940003f0  bl g+0x0"));
        check(to(false, "nope"), bare, arm64::NOP, Some("expected  `nope` is no symbol"));
        check(any(true), bare, arm64::branch_link(AT, 0x9000), None);
        check(any(true), bare, arm64::branch(AT, 0x9000), Some("expected  any `bl`"));
        check(Word::Unchanged, bare, arm64::NOP, None);
        check(Word::Unchanged, bare, arm64::brk(4), Some("found     d4200080  brk 0x4"));
        check(Word::Original, bare, 0xaa1e_03e9, None);
        check(Word::Original, bare, arm64::NOP, Some("expected  aa1e03e9  mov x9, x30"));
        check(Word::Key { enabled: true }, bare, arm64::NOP, Some("it is no jump label"));
    }

    #[test]
    fn a_jump_label_goes_where_its_entry_says() {
        let jump = JumpEntry { code: AT, target: 0x2000, key: 0x8000, likely: false, init: false };
        let place = Place { address: AT, jump: Some(jump) };
        let branch = arm64::branch(AT, 0x2000);
        check(Word::Key { enabled: true }, place, branch, None);
        check(Word::Key { enabled: false }, place, arm64::NOP, None);
        check(Word::Key { enabled: true }, place, arm64::NOP, Some("expected  140003f0  b g+0x0"));
        check(Word::Branch { link: false, to: None }, place, branch, None);
        check(Word::Branch { link: false, to: None }, place, arm64::branch(AT, 0x2004), Some("b g+0x0"));
    }
}
