//! All records of ftrace, as the running kernel has them: the patch site and the call_ops literal of each
//! must be as its record says.

use super::{
    Difference, Reading, SHOWN_MAX, TextReader,
    compare::Expected,
    differences, kprobes,
    listing::listing,
    memory::{instructions, memory, pointer},
};
use crate::{
    arm64,
    kernel::text::{CALL_OPS_LITERAL, INSTRUCTION, RecordLayout},
    machine::Death,
    recording::{link::Link, notes::StepNotes, symbols::Symbols},
    scenario::{InstructionPattern, InstructionPatterns, PatchedText},
};
use std::collections::{BTreeMap, BTreeSet};

/// The first instruction of each site, which saves the return address for the call.
const SAVE_RETURN: u32 = 0xaa1e_03e9;

/// The immediate of a kprobe's `brk`.
const KPROBE: u16 = 4;

/// Flags of a record, the same from 5.10 to 7.3 (`include/linux/ftrace.h`).
const ENABLED: u64 = 1 << 31;
const REGS_ENABLED: u64 = 1 << 29;
const DISABLED: u64 = 1 << 25;
const DIRECT_ENABLED: u64 = 1 << 23;
const CALL_OPS_ENABLED: u64 = 1 << 21;

/// The number of ftrace_ops that trace the function, in the flags of its record.
const USERS: u64 = (1 << 19) - 1;

/// If there are more of these, the memory has no list of them.
const PAGES_MAX: usize = 1 << 16;
const RECORDS_MAX: u64 = 1 << 20;
const OPS_MAX: usize = 1 << 10;

/// The reach of a `bl` in either direction, in bytes.
const REACH: u64 = 128 << 20;

/// A `struct dyn_ftrace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    /// The address of the second instruction of its site, NOP or call.
    call: u64,
    flags: u64,
}

/// What sites call, and what literals point to.
struct Targets {
    caller: u64,
    /// Its own function for ftrace_ops that want all registers, if the kernel has one.
    regs_caller: u64,
    /// `None` without CALL_OPS.
    ops: Option<Ops>,
}

/// What literals point to.
struct Ops {
    none: u64,
    several: u64,
    registered: BTreeSet<u64>,
}

impl Record {
    fn is(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    /// Returns the instructions of its site, with their addresses.
    fn expected(&self, targets: &Targets, kprobes: &BTreeMap<u64, bool>) -> [(u64, Expected); 2] {
        let first = self.call - INSTRUCTION;
        let saves = if kprobes.get(&first) == Some(&true) { arm64::brk(KPROBE) } else { SAVE_RETURN };
        let target = if self.is(REGS_ENABLED) { targets.regs_caller } else { targets.caller };
        let call = match self.is(ENABLED) {
            false => Expected::Exactly(arm64::NOP),
            // A direct call goes to its own trampoline, and that of a module that is far away to a PLT.
            true if self.is(DIRECT_ENABLED) || self.call.abs_diff(target) >= REACH => {
                Expected::Any { link: true }
            }
            true => Expected::Exactly(arm64::branch_link(self.call, target)),
        };
        [(first, Expected::Exactly(saves)), (self.call, call)]
    }

    /// Returns the address of its literal: the last aligned one that ends at the function or before it.
    fn literal(&self) -> u64 {
        (self.call - 12) & !(CALL_OPS_LITERAL - 1)
    }

    /// Returns what its literal should point to, if that is something else.
    fn other_ops(&self, literal: u64, ops: &Ops) -> Option<&'static str> {
        let (right, expected) = match (self.is(ENABLED), self.is(CALL_OPS_ENABLED)) {
            (false, _) => (literal == ops.none, "`ftrace_nop_ops`"),
            (true, false) => (literal == ops.several, "`ftrace_list_ops`"),
            (true, true) => (ops.registered.contains(&literal), "a registered ftrace_ops"),
        };
        (!right).then_some(expected)
    }

    /// Returns why its state is not possible, or not that of the step.
    fn other_state(&self, on: bool, wanted: Option<bool>) -> Option<String> {
        let (users, enabled) = (self.flags & USERS, self.is(ENABLED));
        match wanted {
            Some(false) if enabled => Some(format!("is enabled, {users} users")),
            Some(true) if !enabled && !self.is(DISABLED) => Some("is not enabled".to_owned()),
            _ if enabled && users == 0 => Some("is enabled without a user".to_owned()),
            _ if !enabled && users > 0 && on => Some(format!("has {users} users and is not enabled")),
            _ => None,
        }
    }
}

impl TextReader {
    /// Runs a text step for all records.
    pub(super) fn check_records(
        &mut self,
        link: &mut Link<'_>,
        symbols: &Symbols<'_>,
        notes: &mut StepNotes<'_>,
        step: &PatchedText,
    ) -> Result<Vec<String>, Death> {
        let layout = RecordLayout::of(&self.vmlinux).map_err(Death::Lab)?;
        let records = self.records(link, &layout)?;
        let targets = self.targets(link, &layout)?;
        let kprobes = kprobes(link)?;
        let expected: Vec<_> =
            records.iter().flat_map(|record| record.expected(&targets, &kprobes)).collect();
        let sites = expected.iter().map(|(address, _)| *address);
        let literals = records.iter().filter(|_| targets.ops.is_some()).map(Record::literal);
        let literals = literals.flat_map(|address| [address, address + INSTRUCTION]);
        let mut words = instructions(link, sites.chain(literals).collect())?;
        let compared: Vec<Difference> = expected
            .into_iter()
            .map(|(address, expected)| self.difference(address, expected, &words))
            .collect();
        notes.keep_listing(&listing(&compared, false))?;
        let mut failures = differences(symbols, &compared)?;
        failures.extend(shortened(self.wrong_literals(&records, &targets, &words)));
        let on = self.word(link, "ftrace_enabled")? != 0;
        failures.extend(shortened(self.wrong_states(&records, on, wanted(step))));
        failures.extend(shortened(self.missing_records(&records, targets.ops.is_some())?));
        let amount = step.sites.unwrap_or_default();
        if !amount.allows(records.len() as u64) {
            failures.push(format!("expected {amount} sites, found {}", records.len()));
        }
        self.last.append(&mut words);
        let enabled = records.iter().filter(|record| record.is(ENABLED)).count();
        notes.found = format!("{} records, {enabled} enabled", records.len());
        Ok(failures)
    }

    fn difference(&self, address: u64, expected: Expected, words: &BTreeMap<u64, u32>) -> Difference {
        let before = self.last.get(&address).or_else(|| self.first.get(&address)).copied();
        let reading = Reading { found: words.get(&address).copied(), before, original: None };
        Difference::of(address, expected, reading)
    }

    /// Reads the records of the kernel and of all modules.
    fn records(&self, link: &mut Link<'_>, layout: &RecordLayout) -> Result<Vec<Record>, Death> {
        let mut page = pointer(link, self.known("ftrace_pages_start")?)?;
        let mut records = Vec::new();
        for _ in 0..PAGES_MAX {
            if page == 0 {
                return Ok(records);
            }
            let start = pointer(link, page.wrapping_add(layout.records))?;
            let count = pointer(link, page.wrapping_add(layout.count))? & u64::from(u32::MAX);
            if count > RECORDS_MAX {
                break;
            }
            let bytes = memory(link, start, count * layout.size)?;
            records.extend(bytes.chunks_exact(layout.size as usize).filter_map(|bytes| {
                Some(Record { call: word_at(bytes, layout.call)?, flags: word_at(bytes, layout.flags)? })
            }));
            page = pointer(link, page.wrapping_add(layout.next_page))?;
        }
        Err(Death::Lab(anyhow::anyhow!("the guest's memory at `ftrace_pages_start` has no list of records")))
    }

    fn targets(&self, link: &mut Link<'_>, layout: &RecordLayout) -> Result<Targets, Death> {
        let caller = self.known("ftrace_caller")?;
        let regs_caller = self.texts.address("ftrace_regs_caller").unwrap_or(caller);
        let Ok(none) = self.texts.address("ftrace_nop_ops") else {
            return Ok(Targets { caller, regs_caller, ops: None });
        };
        let (several, end) = (self.known("ftrace_list_ops")?, self.known("ftrace_list_end")?);
        let mut registered = BTreeSet::new();
        let mut ops = pointer(link, self.known("ftrace_ops_list")?)?;
        while ops != end && ops != 0 && registered.len() < OPS_MAX {
            registered.insert(ops);
            ops = pointer(link, ops.wrapping_add(layout.next_ops))?;
        }
        Ok(Targets { caller, regs_caller, ops: Some(Ops { none, several, registered }) })
    }

    fn wrong_literals(
        &self,
        records: &[Record],
        targets: &Targets,
        words: &BTreeMap<u64, u32>,
    ) -> Vec<String> {
        let Some(ops) = &targets.ops else { return Vec::new() };
        let half = |at: u64| words.get(&at).copied().map(u64::from);
        let wrong = |record: &Record| {
            let at = record.literal();
            let Some(literal) = half(at).zip(half(at + INSTRUCTION)).map(|(low, high)| low | high << 32)
            else {
                return Some(format!("cannot read the literal at {at:#x}"));
            };
            let expected = record.other_ops(literal, ops)?;
            let (function, found) = (self.texts.name(record.call), self.texts.name(literal));
            Some(format!("the call_ops literal for {function} points to {found}, expected {expected}"))
        };
        records.iter().filter_map(wrong).collect()
    }

    fn wrong_states(&self, records: &[Record], on: bool, wanted: Option<bool>) -> Vec<String> {
        let wrong = |record: &Record| {
            let state = record.other_state(on, wanted)?;
            Some(format!("the record of {} {state}", self.texts.name(record.call)))
        };
        records.iter().filter_map(wrong).collect()
    }

    /// Returns which records of vmlinux the running kernel does not have.
    fn missing_records(&self, records: &[Record], call_ops: bool) -> Result<Vec<String>, Death> {
        let there: BTreeSet<u64> = records.iter().map(|record| record.call).collect();
        let calls = self.texts.kernel_calls(call_ops).map_err(Death::Lab)?;
        let missing = calls.iter().filter(|call| !there.contains(call));
        Ok(missing.map(|call| format!("the kernel has no record of {}", self.texts.name(*call))).collect())
    }

    /// Returns the address of a symbol that each kernel with ftrace has.
    fn known(&self, name: &str) -> Result<u64, Death> {
        let address = self.texts.address(name);
        address.map_err(|missing| Death::Lab(anyhow::anyhow!(self.texts.explain(missing))))
    }

    /// Reads a variable of 32 bits.
    fn word(&self, link: &mut Link<'_>, name: &str) -> Result<u64, Death> {
        let bytes = memory(link, self.known(name)?, 4)?;
        Ok(bytes.try_into().map_or(0, u32::from_le_bytes).into())
    }
}

/// Returns the state that all records must have.
fn wanted(step: &PatchedText) -> Option<bool> {
    match &step.is {
        Some(InstructionPatterns(words)) => match words[..] {
            [InstructionPattern::Key { enabled }] => Some(enabled),
            _ => None,
        },
        None => None,
    }
}

fn word_at(bytes: &[u8], offset: u64) -> Option<u64> {
    let bytes = bytes.get(offset as usize..)?.get(..8)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// Returns the first lines, and how many there are more.
fn shortened(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(SHOWN_MAX);
    lines.truncate(SHOWN_MAX);
    lines.extend((more > 0).then(|| format!("and {more} more")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: u64 = 0xffff_8000_8001_1004;
    const CALLER: u64 = 0xffff_8000_8002_0000;
    const REGS: u64 = 0xffff_8000_8002_0100;

    fn targets() -> Targets {
        let ops = Ops { none: 1, several: 2, registered: BTreeSet::from([3]) };
        Targets { caller: CALLER, regs_caller: REGS, ops: Some(ops) }
    }

    #[test]
    fn a_site_is_as_its_record_says() {
        let check = |flags, armed: bool, expect: [Expected; 2]| {
            let kprobes = BTreeMap::from([(CALL - 4, armed)]);
            let found = Record { call: CALL, flags }.expected(&targets(), &kprobes);
            assert_eq!(found.map(|(_, expected)| expected), expect, "{flags:#x}");
        };
        let exactly = |first, second| [Expected::Exactly(first), Expected::Exactly(second)];
        let call = |to| arm64::branch_link(CALL, to);
        check(0, false, exactly(SAVE_RETURN, arm64::NOP));
        check(0, true, exactly(arm64::brk(4), arm64::NOP));
        check(ENABLED | 1, false, exactly(SAVE_RETURN, call(CALLER)));
        check(ENABLED | REGS_ENABLED | 2, false, exactly(SAVE_RETURN, call(REGS)));
        let any = Expected::Any { link: true };
        check(ENABLED | DIRECT_ENABLED | 1, false, [Expected::Exactly(SAVE_RETURN), any]);
    }

    #[test]
    fn a_literal_points_to_none_to_the_only_or_to_the_list_of_all() {
        let ops = targets().ops.unwrap();
        let check = |flags, right| {
            let wrong = |literal| Record { call: CALL, flags }.other_ops(literal, &ops).is_some();
            assert_eq!([1, 2, 3, 4].map(wrong), right, "{flags:#x}");
        };
        check(0, [false, true, true, true]);
        check(ENABLED | 2, [true, false, true, true]);
        check(ENABLED | CALL_OPS_ENABLED | 1, [true, true, false, true]);
        // With a BTI before the site, and without one.
        for (call, literal) in [(0x1008, 0xff8), (0x1004, 0xff8), (0x100c, 0x1000)] {
            assert_eq!(Record { call, flags: 0 }.literal(), literal, "{call:#x}");
        }
    }

    #[test]
    fn a_record_contradicts_itself_or_the_step() {
        let check = |flags, on, wanted, expect: Option<&str>| {
            let found = Record { call: CALL, flags }.other_state(on, wanted);
            assert_eq!(found.as_deref(), expect, "{flags:#x}");
        };
        check(0, true, None, None);
        check(ENABLED | 1, true, None, None);
        check(ENABLED, true, None, Some("is enabled without a user"));
        check(1, true, None, Some("has 1 users and is not enabled"));
        check(1, false, None, None);
        check(ENABLED | 1, true, Some(false), Some("is enabled, 1 users"));
        check(0, true, Some(true), Some("is not enabled"));
        check(DISABLED, true, Some(true), None);
    }
}
