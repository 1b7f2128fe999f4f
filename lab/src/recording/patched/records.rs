//! All records of ftrace, as the running kernel has them: the patch site and the call_ops literal of each
//! must be as its record says.

use super::{
    Difference, Reading, SHOWN_MAX, TextReader,
    compare::Expected,
    differences, kprobes,
    listing::{KEPT_MAX, listing},
    memory::{memory, pointer, sorted_instructions},
};
use crate::{
    arm64,
    kernel::text::{CALL_OPS_LITERAL, INSTRUCTION, RecordLayout},
    machine::Death,
    recording::{link::Link, notes::StepNotes, symbols::Symbols},
    scenario::{InstructionPattern, InstructionPatterns, PatchedText},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

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

/// The instructions and literals of all records, as read.
#[derive(Default)]
pub(super) struct Swept {
    /// In ascending order: for each record its literal, if there are any, and its site.
    addresses: Vec<u64>,
    words: Vec<Option<u32>>,
}

/// What was read at one record.
struct Seen {
    site: [Option<u32>; 2],
    literal: Option<u64>,
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
        let first = self.call.wrapping_sub(INSTRUCTION);
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
        self.call.wrapping_sub(12) & !(CALL_OPS_LITERAL - 1)
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

impl Swept {
    /// Reads what belongs to these records, whose addresses ascend.
    fn read(link: &mut Link<'_>, records: &[Record], literals: bool) -> Result<Swept, Death> {
        let mut addresses = Vec::with_capacity(records.len() * words_of(literals));
        for record in records {
            let literal = record.literal();
            if literals {
                addresses.extend([literal, literal.wrapping_add(INSTRUCTION)]);
            }
            addresses.extend([record.call.wrapping_sub(INSTRUCTION), record.call]);
        }
        if !addresses.is_sorted_by(|one, next| one < next) {
            return Err(no_list());
        }
        let words = sorted_instructions(link, &addresses)?;
        Ok(Swept { addresses, words })
    }

    /// Returns what was read at each record.
    fn each(&self, literals: bool) -> impl Iterator<Item = Seen> {
        self.words.chunks_exact(words_of(literals)).map(|words| match *words {
            [low, high, first, call] => {
                let literal = low.zip(high).map(|(low, high)| u64::from(low) | u64::from(high) << 32);
                Seen { site: [first, call], literal }
            }
            [first, call] => Seen { site: [first, call], literal: None },
            _ => Seen { site: [None; 2], literal: None },
        })
    }

    /// Returns the instruction at an address.
    pub(super) fn at(&self, address: u64) -> Option<u32> {
        *self.words.get(self.addresses.binary_search(&address).ok()?)?
    }

    /// Forgets what was read there.
    pub(super) fn forget(&mut self, addresses: &Range<u64>) {
        let [start, end] = [addresses.start, addresses.end]
            .map(|border| self.addresses.partition_point(|address| *address < border));
        self.addresses.drain(start..end.max(start));
        self.words.drain(start..end.max(start));
    }
}

/// Returns how many words a record has.
fn words_of(literals: bool) -> usize {
    if literals { 4 } else { 2 }
}

fn no_list() -> Death {
    Death::Lab(anyhow::anyhow!("the guest's memory at `ftrace_pages_start` has no list of records"))
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
        let swept = Swept::read(link, &records, targets.ops.is_some())?;
        // Those that are as expected are only shown.
        let (mut wrong, mut right, mut total) = (Vec::new(), Vec::new(), 0);
        for (record, seen) in records.iter().zip(swept.each(targets.ops.is_some())) {
            for ((address, expected), found) in record.expected(&targets, &kprobes).into_iter().zip(seen.site)
            {
                total += 1;
                let holds = expected.is(found);
                if holds && right.len() == KEPT_MAX {
                    continue;
                }
                let reading = Reading { found, before: self.before(address), original: None };
                let difference = Difference { address, expected: Some(expected), reading, holds };
                if holds { right.push(difference) } else { wrong.push(difference) }
            }
        }
        wrong.append(&mut right);
        notes.keep_listing(&listing(&wrong, total, false))?;
        let mut failures = differences(symbols, &wrong, total)?;
        failures.extend(shortened(self.wrong_literals(&records, &targets, &swept)));
        let on = self.word(link, "ftrace_enabled")? != 0;
        failures.extend(shortened(self.wrong_states(&records, on, wanted(step))));
        failures.extend(shortened(self.missing_records(&records, targets.ops.is_some())?));
        let amount = step.sites.unwrap_or_default();
        if !amount.allows(records.len() as u64) {
            failures.push(format!("expected {amount} sites, found {}", records.len()));
        }
        self.last.retain(|address, word| swept.at(*address).is_none_or(|now| now == *word));
        self.swept = swept;
        let enabled = records.iter().filter(|record| record.is(ENABLED)).count();
        notes.found = format!("{} records, {enabled} enabled", records.len());
        Ok(failures)
    }

    /// Reads the records of the kernel and of all modules, in the order of their addresses.
    fn records(&self, link: &mut Link<'_>, layout: &RecordLayout) -> Result<Vec<Record>, Death> {
        let mut page = pointer(link, self.known("ftrace_pages_start")?)?;
        let mut records = Vec::new();
        for _ in 0..PAGES_MAX {
            if page == 0 {
                records.sort_unstable_by_key(|record: &Record| record.call);
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
        Err(no_list())
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

    fn wrong_literals(&self, records: &[Record], targets: &Targets, swept: &Swept) -> Vec<String> {
        let Some(ops) = &targets.ops else { return Vec::new() };
        let wrong = |(record, seen): (&Record, Seen)| {
            let Some(literal) = seen.literal else {
                return Some(format!("cannot read the literal at {:#x}", record.literal()));
            };
            let expected = record.other_ops(literal, ops)?;
            let (function, found) = (self.texts.name(record.call), self.texts.name(literal));
            Some(format!("the call_ops literal for {function} points to {found}, expected {expected}"))
        };
        records.iter().zip(swept.each(true)).filter_map(wrong).collect()
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
        let is_there = |call: &u64| records.binary_search_by_key(call, |record| record.call).is_ok();
        let calls = self.texts.kernel_calls(call_ops).map_err(Death::Lab)?;
        let missing = calls.iter().filter(|call| !is_there(call));
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
    fn what_was_read_is_found_until_it_is_forgotten() {
        let addresses = vec![0x1000, 0x1004, 0x100c, 0x1010, 0x2000, 0x2004, 0x200c, 0x2010];
        let words = (1..=7).map(Some).chain([None]).collect();
        let mut swept = Swept { addresses, words };
        let seen: Vec<_> = swept.each(true).map(|seen| (seen.literal, seen.site)).collect();
        assert_eq!(seen, [(Some(2 << 32 | 1), [Some(3), Some(4)]), (Some(6 << 32 | 5), [Some(7), None])]);
        let at = |swept: &Swept| [0x1000, 0x1010, 0x2000, 0x2008, 0x2010].map(|address| swept.at(address));
        assert_eq!(at(&swept), [Some(1), Some(4), Some(5), None, None]);
        swept.forget(&(0x1004..0x2000));
        assert_eq!(at(&swept), [Some(1), None, Some(5), None, None]);
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
