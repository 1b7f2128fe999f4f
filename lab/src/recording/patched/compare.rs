//! An instruction, compared with an earlier and an expected one.

use super::sites::Site;
use crate::{arm64, scenario::InstructionPattern};
use std::fmt;
use trace::Symbols;

/// The readings of one instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    /// The instruction; `None` if it cannot be read.
    pub(super) found: Option<u32>,
    /// The instruction when a step last read it, or before the trace was armed.
    pub(super) before: Option<u32>,
    /// The instruction before any patching.
    pub(super) original: Option<u32>,
}

/// The expected instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    Exactly(u32),
    /// Any `b` or, with a link, any `bl`.
    Any {
        link: bool,
    },
    /// Not known, for this reason.
    Unknown(String),
}

/// An instruction, compared with the expected one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) address: u64,
    /// `None` if any instruction is accepted.
    pub(super) expected: Option<Expected>,
    pub(super) reading: Reading,
    /// Whether it is the expected one.
    pub(super) holds: bool,
}

/// Compares an instruction at `address` with the expected one. `resolve` finds symbols.
pub(super) fn compare(
    word: &InstructionPattern,
    site: &Site,
    address: u64,
    reading: &Reading,
    resolve: impl Fn(&str) -> Result<u64, String>,
) -> Difference {
    let expected = expected(word, site, address, reading, resolve);
    Difference { address, holds: expected.is(reading.found), expected: Some(expected), reading: *reading }
}

/// The form of expectations other than one instruction.
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
    word: &InstructionPattern,
    site: &Site,
    address: u64,
    reading: &Reading,
    resolve: impl Fn(&str) -> Result<u64, String>,
) -> Expected {
    let known = |word: Option<u32>, unread: &str| match word {
        Some(word) => Expected::Exactly(word),
        None => Expected::Unknown(format!("not known: {unread}")),
    };
    match (word, &site.jump) {
        (InstructionPattern::Exactly(word), _) => Expected::Exactly(*word),
        (InstructionPattern::Original, _) => known(reading.original, "vmlinux does not have it"),
        (InstructionPattern::Unchanged, _) => known(reading.before, "no earlier step read it"),
        (InstructionPattern::Key { enabled }, Some(jump)) => Expected::Exactly(jump.instruction(*enabled)),
        (InstructionPattern::Key { .. }, None) => Expected::Unknown("it is not a jump label".to_owned()),
        (InstructionPattern::Branch { link: false, to: None }, Some(jump)) => {
            Expected::Exactly(arm64::branch(address, jump.target))
        }
        (InstructionPattern::Branch { link, to: None }, _) => Expected::Any { link: *link },
        (InstructionPattern::Branch { link, to: Some(to) }, _) => match resolve(to) {
            Ok(target) if *link => Expected::Exactly(arm64::branch_link(address, target)),
            Ok(target) => Expected::Exactly(arm64::branch(address, target)),
            Err(reason) => Expected::Unknown(reason),
        },
    }
}

impl Expected {
    /// Returns whether the instruction that was found is the expected one.
    pub(super) fn is(&self, found: Option<u32>) -> bool {
        match (self, found) {
            (_, None) | (Expected::Unknown(_), _) => false,
            (Expected::Exactly(word), Some(found)) => *word == found,
            (Expected::Any { link: true }, Some(found)) => arm64::is_branch_link(found),
            (Expected::Any { link: false }, Some(found)) => arm64::is_branch(found),
        }
    }
}

impl Difference {
    /// Formats the earlier, the expected and the found instruction, one per line.
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
        let found = match self.reading.found {
            Some(word) => line(Some(word)),
            None => "it cannot be read".to_owned(),
        };
        let place = symbols.resolve(address).map(|symbol| format!("{symbol}, ")).unwrap_or_default();
        format!(
            "unexpected instruction at {place}{address:#x}\n  before    {}\n  expected  {expected}\n  found     {found}",
            line(self.reading.before)
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

    fn check(word: InstructionPattern, site: Site, found: u32, expect: Option<&str>) {
        let symbols = Symbols::parse("0000000000001000 T f\n0000000000002000 T g\n".into());
        let reading = Reading { found: Some(found), before: Some(arm64::NOP), original: Some(0xaa1e_03e9) };
        let resolve = |name: &str| symbols.address(name).ok_or_else(|| format!("`{name}` is not a symbol"));
        let difference = compare(&word, &site, AT, &reading, resolve);
        let shown = (!difference.holds).then(|| difference.shown(&symbols));
        assert_eq!(shown.is_some(), expect.is_some(), "{word:?}: {shown:?}");
        let (shown, expect) = (shown.unwrap_or_default(), expect.unwrap_or_default());
        assert!(shown.contains(expect), "no `{expect}` in {shown}");
    }

    #[test]
    fn each_kind_of_expectation_can_hold_and_not_hold() {
        let bare = Site { address: AT, jump: None };
        let to = |link, to: &str| InstructionPattern::Branch {
            link,
            to: Some(ProbePoint::from_text(to).unwrap()),
        };
        let any = |link| InstructionPattern::Branch { link, to: None };
        check(InstructionPattern::Exactly(arm64::NOP), bare, arm64::NOP, None);
        check(
            InstructionPattern::Exactly(arm64::NOP),
            bare,
            arm64::branch(AT, 0x2004),
            Some(
                "unexpected instruction at f+0x40, 0x1040\n  before    d503201f  nop\n  \
                 expected  d503201f  nop\n  found     140003f1  b g+0x4",
            ),
        );
        check(to(true, "g"), bare, arm64::branch_link(AT, 0x2000), None);
        check(to(true, "g"), bare, arm64::branch_link(AT, 0x2004), Some("expected  940003f0  bl g+0x0"));
        check(to(false, "nope"), bare, arm64::NOP, Some("expected  `nope` is not a symbol"));
        check(any(true), bare, arm64::branch_link(AT, 0x9000), None);
        check(any(true), bare, arm64::branch(AT, 0x9000), Some("expected  any `bl`"));
        check(InstructionPattern::Unchanged, bare, arm64::NOP, None);
        check(InstructionPattern::Unchanged, bare, arm64::brk(4), Some("found     d4200080  brk 0x4"));
        check(InstructionPattern::Original, bare, 0xaa1e_03e9, None);
        check(InstructionPattern::Original, bare, arm64::NOP, Some("expected  aa1e03e9  mov x9, x30"));
        check(InstructionPattern::Key { enabled: true }, bare, arm64::NOP, Some("it is not a jump label"));
    }

    #[test]
    fn a_jump_label_goes_where_its_entry_says() {
        let jump = JumpEntry { code: AT, target: 0x2000, key: 0x8000, likely: false, init: false };
        let site = Site { address: AT, jump: Some(jump) };
        let branch = arm64::branch(AT, 0x2000);
        check(InstructionPattern::Key { enabled: true }, site, branch, None);
        check(InstructionPattern::Key { enabled: false }, site, arm64::NOP, None);
        check(
            InstructionPattern::Key { enabled: true },
            site,
            arm64::NOP,
            Some("expected  140003f0  b g+0x0"),
        );
        check(InstructionPattern::Branch { link: false, to: None }, site, branch, None);
        check(
            InstructionPattern::Branch { link: false, to: None },
            site,
            arm64::branch(AT, 0x2004),
            Some("b g+0x0"),
        );
    }
}
