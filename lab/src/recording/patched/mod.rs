//! Text steps: instructions of the running kernel, read and compared.

mod capture;
mod compare;
mod listing;
mod places;
mod slot;

pub(crate) use listing::{Listing as TextListing, Looked as TextWord, SUFFIX as LISTING_SUFFIX};

use super::{Recorder, unexpected};
use crate::{
    kernel::{
        WITHOUT_VMLINUX,
        text::{Binary, INSTRUCTION, JumpTable},
    },
    machine::Death,
    scenario::{Scenario, Step, Text, TextPlace, Word},
    trace::Symbols,
};
use anyhow::Context;
use compare::{Difference, Looked};
use listing::Listing;
use places::{Loaded, Place, Texts};
use protocol::{Reply, Request};
use std::{collections::BTreeMap, path::Path};

/// The most that the agent reads at a time, in bytes.
const READ_MAX: u64 = 64 << 10;

/// Instructions so near to one another are read together, in bytes.
const NEAR: u64 = 1 << 10;

/// How many places that are not as expected are shown.
const SHOWN_MAX: usize = 4;

/// The kernel has a line for each kprobe there: address, kind, symbol.
const KPROBES: &str = "/sys/kernel/debug/kprobes/list";

/// What text steps know of the kernel's code.
pub(super) struct Patched {
    texts: Texts,
    /// The looks that the scenario takes.
    steps: Vec<Text>,
    /// What was there before the trace was armed, or when the module had been loaded.
    first: BTreeMap<u64, u32>,
    /// What was there when a step last looked.
    last: BTreeMap<u64, u32>,
}

impl Recorder<'_> {
    /// Reads vmlinux, if the scenario looks at patched text.
    pub(super) fn open_text(&mut self, scenario: &Scenario) -> Result<(), Death> {
        let looks = scenario.steps.iter().filter_map(|step| match &step.value {
            Step::Text(step) => Some(step.clone()),
            _ => None,
        });
        let steps: Vec<Text> = looks.collect();
        if steps.is_empty() {
            return Ok(());
        }
        let path = self.kernel.vmlinux().context(WITHOUT_VMLINUX).map_err(Death::Lab)?;
        let read = || format!("cannot read the text of `{}`", path.display());
        let texts = Binary::vmlinux(&path).and_then(Texts::new).with_context(read).map_err(Death::Lab)?;
        self.compare_jump_tables(&texts, &path)?;
        self.patched = Some(Patched { texts, steps, first: BTreeMap::new(), last: BTreeMap::new() });
        Ok(())
    }

    /// The running kernel must have the jump entries that its vmlinux has, or nothing that is read
    /// from vmlinux is true of it. The boot sorts them.
    fn compare_jump_tables(&mut self, texts: &Texts, path: &Path) -> Result<(), Death> {
        let Some(range) = texts.jump_table() else { return Ok(()) };
        let bytes = self.memory(range.start, range.end.saturating_sub(range.start))?;
        let mut running = JumpTable::read(range.start, &bytes).map_err(Death::Lab)?;
        let mut built = texts.kernel_jumps().to_vec();
        running.sort_by_key(|entry| (entry.code, entry.key));
        built.sort_by_key(|entry| (entry.code, entry.key));
        if running != built {
            let error = anyhow::anyhow!(
                "the running kernel's jump table, {} entries, is not that of `{}`, {} entries",
                running.len(),
                path.display(),
                built.len()
            );
            return Err(Death::Lab(error));
        }
        Ok(())
    }

    /// Remembers what is there now at all places that are there now and were not before.
    pub(super) fn remember_text(&mut self) -> Result<(), Death> {
        let Some(patched) = &self.patched else { return Ok(()) };
        // One that is not found may come with a module.
        let places = patched.steps.iter().filter_map(|step| Some((step, patched.texts.places(step).ok()?)));
        let addresses = places.flat_map(|(step, places)| addresses(step, &places)).collect::<Vec<_>>();
        let new = addresses.into_iter().filter(|address| !patched.first.contains_key(address)).collect();
        let words = self.instructions(new)?;
        if let Some(patched) = &mut self.patched {
            patched.first.extend(words);
        }
        Ok(())
    }

    /// Learns which code of a module is patched that was just loaded.
    pub(super) fn learn_text(&mut self, module: &str, binary: Binary) -> Result<(), Death> {
        if self.patched.is_none() {
            return Ok(());
        }
        let jumps = match binary.section("__jump_table") {
            Some(range) => {
                let bytes = self.memory(range.start, range.end.saturating_sub(range.start))?;
                JumpTable::read(range.start, &bytes).map_err(Death::Lab)?
            }
            None => Vec::new(),
        };
        if let Some(patched) = &mut self.patched {
            // What was there may have been another module's.
            let loaded = Loaded { name: module.to_owned(), binary, jumps };
            for range in loaded.binary.loaded().map_err(Death::Lab)? {
                patched.first.retain(|address, _| !range.contains(address));
                patched.last.retain(|address, _| !range.contains(address));
            }
            patched.texts.add(loaded);
        }
        self.remember_text()
    }

    /// Looks at patched text; `found` becomes how much of it there is, and what is there is kept.
    pub(super) fn patched(
        &mut self,
        number: usize,
        step: &Text,
        found: &mut String,
        output: &mut Vec<String>,
    ) -> Result<Vec<String>, Death> {
        let places = match self.places(step)? {
            Ok(places) => places,
            Err(reason) => return Ok(vec![reason]),
        };
        let amount = step.sites.unwrap_or_default();
        if !amount.allows(places.len() as u64) {
            return Ok(vec![format!("expected {amount} sites, found {}", places.len())]);
        }
        if matches!(step.text, TextPlace::KprobeAt(_))
            && let Some(reason) = self.no_kprobe(&places)?
        {
            return Ok(vec![reason]);
        }
        let words = self.instructions(addresses(step, &places))?;
        capture::keep(step, &places, &words, &mut self.captures);
        let compared = self.compared(step, &places, &words);
        let listing = Listing::of(&compared, matches!(step.text, TextPlace::CallOps(_)));
        output.push(self.keep_listing(number, &listing)?);
        let mut failures = self.differences(&compared)?;
        failures.extend(self.wrong_ops(step, &places, &words)?);
        if let Some(patched) = &mut self.patched {
            patched.last.extend(words);
        }
        *found = match places.len() {
            1 => String::new(),
            many => format!("{many} sites"),
        };
        Ok(failures)
    }

    /// All places of a step, or why they are not there.
    fn places(&mut self, step: &Text) -> Result<Result<Vec<Place>, String>, Death> {
        if let TextPlace::KprobeSlot(place) = &step.text {
            return Ok(self.slot(&place.slot)?.map(|address| vec![Place::at(address)]));
        }
        let Some(patched) = &self.patched else { return Err(unread()) };
        Ok(patched.texts.places(step).map_err(|missing| patched.texts.explain(missing)))
    }

    /// Each instruction beside what it must be.
    fn compared(&self, step: &Text, places: &[Place], words: &BTreeMap<u64, u32>) -> Vec<Difference> {
        let Some(patched) = &self.patched else { return Vec::new() };
        let texts = &patched.texts;
        let resolve = |to: &str| texts.address(to).map_err(|missing| texts.explain(missing));
        let mut compared = Vec::new();
        for place in places {
            for index in 0..step.length() {
                let address = place.address + index as u64 * INSTRUCTION;
                let word = step.word(index);
                let first = patched.first.get(&address).copied();
                let looked = Looked {
                    found: words.get(&address).copied(),
                    before: patched.last.get(&address).copied().or(first),
                    // Finding it out takes a look at all that the boot patches.
                    original: (word == Some(&Word::Original))
                        .then(|| texts.original(address, first))
                        .flatten(),
                };
                compared.push(match word {
                    Some(word) => compare::compare(word, place, address, &looked, resolve),
                    None => Difference { address, expected: None, looked, holds: true },
                });
            }
        }
        compared
    }

    /// Says which instructions are not what they must be, and shows them.
    fn differences(&self, compared: &[Difference]) -> Result<Vec<String>, Death> {
        let differing: Vec<&Difference> = compared.iter().filter(|one| !one.holds).collect();
        if differing.is_empty() {
            return Ok(Vec::new());
        }
        let symbols = Symbols::parse(self.text_symbols()?);
        let shown = differing.iter().take(SHOWN_MAX);
        let mut failures: Vec<String> = shown.map(|difference| difference.shown(&symbols)).collect();
        if differing.len() > SHOWN_MAX {
            let more = differing.len() - SHOWN_MAX;
            failures.push(format!("and {more} more of {} instructions", compared.len()));
        }
        Ok(failures)
    }

    /// Why the literal before a function does not point where it must.
    fn wrong_ops(
        &mut self,
        step: &Text,
        places: &[Place],
        words: &BTreeMap<u64, u32>,
    ) -> Result<Vec<String>, Death> {
        let mut failures = Vec::new();
        let wanted = [("ops", &step.ops), ("func", &step.func)];
        for (place, (key, name)) in places.iter().flat_map(|place| wanted.map(|wanted| (place, wanted))) {
            let Some(name) = name else { continue };
            let half = |at: u64| words.get(&at).copied().map(u64::from);
            let Some((low, high)) = half(place.address).zip(half(place.address + INSTRUCTION)) else {
                failures.push(format!("the literal at {:#x} cannot be read", place.address));
                continue;
            };
            let mut pointer = low | high << 32;
            if key == "func" {
                // The first member of struct ftrace_ops.
                pointer = self.pointer(pointer)?;
            }
            let Some(patched) = &self.patched else { continue };
            let found = patched.texts.name(pointer);
            match patched.texts.address(name) {
                Err(missing) => failures.push(patched.texts.explain(missing)),
                Ok(address) if address == pointer => {}
                Ok(_) => failures.push(format!("expected {key} `{name}`, found {found}")),
            }
        }
        Ok(failures)
    }

    /// Why there is no kprobe at the places, where there is none.
    fn no_kprobe(&mut self, places: &[Place]) -> Result<Option<String>, Death> {
        let list = self.files(&[KPROBES.to_owned()])?.remove(KPROBES).unwrap_or_default();
        let listed = |address: u64| {
            let first = |line: &str| u64::from_str_radix(line.split_whitespace().next()?, 16).ok();
            list.lines().any(|line| first(line) == Some(address))
        };
        let missing = places.iter().find(|place| !listed(place.address));
        let Some(patched) = &self.patched else { return Ok(None) };
        Ok(missing.map(|place| format!("no kprobe is registered at {}", patched.texts.name(place.address))))
    }

    /// Instructions at these addresses, those that can be read.
    fn instructions(&mut self, mut addresses: Vec<u64>) -> Result<BTreeMap<u64, u32>, Death> {
        addresses.sort_unstable();
        addresses.dedup();
        let mut words = BTreeMap::new();
        let spans = spans(&addresses);
        let requests: Vec<_> = spans
            .iter()
            .map(|(start, length)| Request::ReadMemory { address: *start, length: *length as u32 })
            .collect();
        let replies = self.call_all(&requests)?;
        for ((start, length), reply) in spans.into_iter().zip(replies) {
            let Reply::Data(data) = reply else { continue };
            let end = start + length;
            for address in addresses.iter().filter(|address| (start..end).contains(address)) {
                let at = (address - start) as usize;
                if let Some(bytes) = data.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()) {
                    words.insert(*address, u32::from_le_bytes(bytes));
                }
            }
        }
        Ok(words)
    }

    /// Memory of the kernel that must be there.
    fn memory(&mut self, address: u64, length: u64) -> Result<Vec<u8>, Death> {
        let end = address.saturating_add(length);
        let starts = (address..end).step_by(READ_MAX as usize);
        let requests: Vec<_> = starts
            .map(|start| Request::ReadMemory { address: start, length: (end - start).min(READ_MAX) as u32 })
            .collect();
        let mut bytes = Vec::new();
        for reply in self.call_all(&requests)? {
            match reply {
                Reply::Data(data) => bytes.extend(data),
                other => return Err(unexpected(&format!("{length} bytes at {address:#x}"), &other)),
            }
        }
        Ok(bytes)
    }
}

/// A text step in a scenario that was said to have none.
fn unread() -> Death {
    Death::Lab(anyhow::anyhow!("the kernel's text was not read"))
}

/// The addresses of all instructions that a step looks at.
fn addresses(step: &Text, places: &[Place]) -> Vec<u64> {
    let length = step.length() as u64;
    places.iter().flat_map(|place| (0..length).map(|index| place.address + index * INSTRUCTION)).collect()
}

/// Starts and lengths, in bytes, of what is read to have all of these addresses, which are sorted.
fn spans(addresses: &[u64]) -> Vec<(u64, u64)> {
    let mut spans: Vec<(u64, u64)> = Vec::new();
    for address in addresses {
        let end = address + INSTRUCTION;
        match spans.last_mut() {
            Some((start, length)) if address - (*start + *length) < NEAR && end - *start <= READ_MAX => {
                *length = end - *start;
            }
            _ => spans.push((*address, INSTRUCTION)),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_near_is_read_together_and_no_more_than_the_agent_reads() {
        assert_eq!(spans(&[]), []);
        assert_eq!(spans(&[0x1000, 0x1004, 0x1100, 0x9000]), [(0x1000, 0x104), (0x9000, 4)]);
        let many: Vec<u64> = (0..100_000).map(|index| index * 4).collect();
        let spans = spans(&many);
        assert!(spans.iter().all(|(_, length)| *length <= READ_MAX), "{spans:?}");
        assert_eq!(spans.iter().map(|(_, length)| length).sum::<u64>(), 400_000);
    }
}
