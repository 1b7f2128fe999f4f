//! Text steps: instructions of the running kernel, read and compared.

mod capture;
mod compare;
mod listing;
mod memory;
mod records;
mod sites;
mod slot;

use super::{link::Link, notes::StepNotes, symbols::Symbols};
use crate::{
    kernel::{
        Kernel, WITHOUT_VMLINUX,
        text::{Binary, INSTRUCTION, JumpTable},
    },
    machine::Death,
    scenario::{InstructionPattern, PatchedText, Scenario, Step, TextPlace},
};
use anyhow::Context;
use compare::{Difference, Reading};
use listing::listing;
use memory::{instructions, memory, pointer};
use records::Swept;
use sites::{KernelText, Loaded, Site};
use slot::slot;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// The maximum number of unexpected instructions that are shown.
const SHOWN_MAX: usize = 4;

/// The file of debugfs with a line per kprobe: address, kind, symbol.
const KPROBES: &str = "/sys/kernel/debug/kprobes/list";

/// 0 while all kprobes are disarmed, which the list does not say.
const ALL_ARMED: &str = "/sys/kernel/debug/kprobes/enabled";

/// The code of the guest, for the text steps of a scenario.
pub(super) struct TextReader {
    vmlinux: PathBuf,
    texts: KernelText,
    /// The text steps of the scenario.
    steps: Vec<PatchedText>,
    /// The instructions before the trace was armed, or when their module had been loaded.
    first: BTreeMap<u64, u32>,
    /// The instructions that a step last read.
    last: BTreeMap<u64, u32>,
    /// The sites of all records when a step last read them.
    swept: Swept,
}

impl TextReader {
    /// Reads vmlinux, if the scenario has text steps.
    pub(super) fn open(
        link: &mut Link<'_>,
        kernel: &Kernel,
        scenario: &Scenario,
    ) -> Result<Option<TextReader>, Death> {
        let steps = scenario.steps.iter().filter_map(|step| match &step.value {
            Step::PatchedText(step) => Some(step.clone()),
            _ => None,
        });
        let steps: Vec<PatchedText> = steps.collect();
        if steps.is_empty() {
            return Ok(None);
        }
        let vmlinux = kernel.vmlinux().context(WITHOUT_VMLINUX).map_err(Death::Lab)?;
        let read = || format!("cannot read the text of `{}`", vmlinux.display());
        let texts =
            Binary::vmlinux(&vmlinux).and_then(KernelText::new).with_context(read).map_err(Death::Lab)?;
        compare_jump_tables(link, &texts, &vmlinux)?;
        Ok(Some(TextReader {
            vmlinux,
            texts,
            steps,
            first: BTreeMap::new(),
            last: BTreeMap::new(),
            swept: Swept::default(),
        }))
    }

    /// Reads the instructions at all sites that exist now and did not exist before.
    pub(super) fn remember(&mut self, link: &mut Link<'_>) -> Result<(), Death> {
        // A site that does not exist may be in a module that is not loaded yet.
        let sites = self.steps.iter().filter_map(|step| Some((step, self.texts.sites(step).ok()?)));
        let addresses = sites.flat_map(|(step, sites)| addresses(step, &sites)).collect::<Vec<_>>();
        let new = addresses.into_iter().filter(|address| !self.first.contains_key(address)).collect();
        self.first.extend(instructions(link, new)?);
        Ok(())
    }

    /// Adds the code of a module that was just loaded.
    pub(super) fn add_module(
        &mut self,
        link: &mut Link<'_>,
        module: &str,
        binary: Binary,
    ) -> Result<(), Death> {
        let jumps = match binary.section("__jump_table") {
            Some(range) => {
                let bytes = memory(link, range.start, range.end.saturating_sub(range.start))?;
                JumpTable::read(range.start, &bytes).map_err(Death::Lab)?
            }
            None => Vec::new(),
        };
        // Earlier instructions at its addresses may be another module's.
        let loaded = Loaded { name: module.to_owned(), binary, jumps };
        for range in loaded.binary.loaded().map_err(Death::Lab)? {
            self.first.retain(|address, _| !range.contains(address));
            self.last.retain(|address, _| !range.contains(address));
            self.swept.forget(&range);
        }
        self.texts.add(loaded);
        self.remember(link)
    }

    /// Forgets the code of a module that was unloaded.
    pub(super) fn remove_module(&mut self, module: &str) {
        self.texts.remove(module);
    }

    /// Runs a text step: reads its instructions, keeps and compares them.
    pub(super) fn check(
        &mut self,
        link: &mut Link<'_>,
        symbols: &Symbols<'_>,
        notes: &mut StepNotes<'_>,
        step: &PatchedText,
    ) -> Result<Vec<String>, Death> {
        if step.text.is_all_records() {
            return self.check_records(link, symbols, notes, step);
        }
        let sites = match self.sites(link, step)? {
            Ok(sites) => sites,
            Err(reason) => return Ok(vec![reason]),
        };
        let amount = step.sites.unwrap_or_default();
        if !amount.allows(sites.len() as u64) {
            return Ok(vec![format!("expected {amount} sites, found {}", sites.len())]);
        }
        if matches!(step.text, TextPlace::KprobeAt(_))
            && let Some(reason) = self.missing_kprobe(link, &sites)?
        {
            return Ok(vec![reason]);
        }
        let words = instructions(link, addresses(step, &sites))?;
        capture::keep(step, &sites, &words, notes.captures);
        let compared = self.compared(step, &sites, &words);
        let literal = matches!(step.text, TextPlace::CallOps(_));
        notes.keep_listing(&listing(&compared, compared.len(), literal))?;
        let mut failures = differences(symbols, &compared, compared.len())?;
        failures.extend(self.wrong_ops(link, step, &sites, &words)?);
        self.last.extend(words);
        notes.found = match sites.len() {
            1 => String::new(),
            many => format!("{many} sites"),
        };
        Ok(failures)
    }

    /// Returns all sites of a step, or why one does not exist.
    fn sites(&self, link: &mut Link<'_>, step: &PatchedText) -> Result<Result<Vec<Site>, String>, Death> {
        if let TextPlace::KprobeSlot(place) = &step.text {
            let slot = slot(link, &self.texts, &self.vmlinux, &place.slot)?;
            return Ok(slot.map(|address| vec![Site::at(address)]));
        }
        Ok(self.texts.sites(step).map_err(|missing| self.texts.explain(missing)))
    }

    /// Returns the instruction when a step last read it, or before the trace was armed.
    fn before(&self, address: u64) -> Option<u32> {
        let last = self.last.get(&address).copied();
        last.or_else(|| self.swept.at(address)).or_else(|| self.first.get(&address).copied())
    }

    /// Compares each instruction with the expected one.
    fn compared(&self, step: &PatchedText, sites: &[Site], words: &BTreeMap<u64, u32>) -> Vec<Difference> {
        let texts = &self.texts;
        let resolve = |to: &str| texts.address(to).map_err(|missing| texts.explain(missing));
        let mut compared = Vec::new();
        for site in sites {
            for (index, address) in site.addresses(step).enumerate() {
                let word = step.word(index);
                let first = self.first.get(&address).copied();
                let reading = Reading {
                    found: words.get(&address).copied(),
                    before: self.before(address),
                    // This searches everything that the boot patches.
                    original: (word == Some(&InstructionPattern::Original))
                        .then(|| texts.original(address, first))
                        .flatten(),
                };
                compared.push(match word {
                    Some(word) => compare::compare(word, site, address, &reading, resolve),
                    None => Difference { address, expected: None, reading, holds: true },
                });
            }
        }
        compared
    }

    /// Checks that the literal before a function points to the expected ftrace_ops or function.
    fn wrong_ops(
        &self,
        link: &mut Link<'_>,
        step: &PatchedText,
        sites: &[Site],
        words: &BTreeMap<u64, u32>,
    ) -> Result<Vec<String>, Death> {
        let mut failures = Vec::new();
        let wanted = [("ops", &step.ops), ("func", &step.func)];
        for (site, (key, name)) in sites.iter().flat_map(|site| wanted.map(|wanted| (site, wanted))) {
            let Some(name) = name else { continue };
            let half = |at: u64| words.get(&at).copied().map(u64::from);
            let Some((low, high)) = half(site.address).zip(half(site.address + INSTRUCTION)) else {
                failures.push(format!("cannot read the literal at {:#x}", site.address));
                continue;
            };
            let mut target = low | high << 32;
            if key == "func" {
                // The first member of struct ftrace_ops.
                target = pointer(link, target)?;
            }
            let found = self.texts.name(target);
            match self.texts.address(name) {
                Err(missing) => failures.push(self.texts.explain(missing)),
                Ok(address) if address == target => {}
                Ok(_) => failures.push(format!("expected {key} `{name}`, found {found}")),
            }
        }
        Ok(failures)
    }

    /// Says at which site no kprobe is registered, if there is one.
    fn missing_kprobe(&self, link: &mut Link<'_>, sites: &[Site]) -> Result<Option<String>, Death> {
        let registered = kprobes(link)?;
        let missing = sites.iter().find(|site| !registered.contains_key(&site.address));
        Ok(missing.map(|site| format!("no kprobe is registered at {}", self.texts.name(site.address))))
    }
}

/// Returns the addresses of all kprobes, and whether each is armed.
fn kprobes(link: &mut Link<'_>) -> Result<BTreeMap<u64, bool>, Death> {
    let mut files = link.files(&[KPROBES.to_owned(), ALL_ARMED.to_owned()])?;
    let list = files.remove(KPROBES).unwrap_or_default();
    let all_armed = files.remove(ALL_ARMED).is_none_or(|text| text.trim() != "0");
    let kprobe = |line: &str| {
        let address = u64::from_str_radix(line.split_whitespace().next()?, 16).ok()?;
        Some((address, all_armed && !line.contains("[DISABLED]")))
    };
    let mut kprobes = BTreeMap::new();
    for (address, is_armed) in list.lines().filter_map(kprobe) {
        // Of several at one address, one that is enabled suffices.
        *kprobes.entry(address).or_default() |= is_armed;
    }
    Ok(kprobes)
}

/// Checks that the running kernel has the jump entries of its vmlinux. Otherwise vmlinux does not describe
/// it. The boot sorts the entries.
fn compare_jump_tables(link: &mut Link<'_>, texts: &KernelText, path: &Path) -> Result<(), Death> {
    let Some(range) = texts.jump_table() else { return Ok(()) };
    let bytes = memory(link, range.start, range.end.saturating_sub(range.start))?;
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

/// Shows the instructions that are not as expected, of `total`.
fn differences(symbols: &Symbols<'_>, compared: &[Difference], total: usize) -> Result<Vec<String>, Death> {
    let differing: Vec<&Difference> = compared.iter().filter(|one| !one.holds).collect();
    if differing.is_empty() {
        return Ok(Vec::new());
    }
    let symbols = trace::Symbols::parse(symbols.kallsyms()?);
    let shown = differing.iter().take(SHOWN_MAX);
    let mut failures: Vec<String> = shown.map(|difference| difference.shown(&symbols)).collect();
    if differing.len() > SHOWN_MAX {
        let more = differing.len() - SHOWN_MAX;
        failures.push(format!("and {more} more of {total} instructions"));
    }
    Ok(failures)
}

/// Returns the addresses of all instructions that a step reads.
fn addresses(step: &PatchedText, sites: &[Site]) -> Vec<u64> {
    sites.iter().flat_map(|site| site.addresses(step)).collect()
}
