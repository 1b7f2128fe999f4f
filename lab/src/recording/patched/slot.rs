//! The slots of kprobes, found as the kernel finds them: by the hash table of all kprobes.

use super::{super::Recorder, unread};
use crate::{
    kernel::{WITHOUT_VMLINUX, text::KprobeLayout},
    machine::Death,
};
use anyhow::Context;

/// The kernel's KPROBE_TABLE_SIZE, from 5.10 to 7.3.
const HEADS: u64 = 64;

/// More kprobes than this have one hash only where the table is no table.
const CHAIN_MAX: usize = 1024;

impl Recorder<'_> {
    /// Where the slot of the kprobe at `place` is, or why it has none.
    pub(super) fn slot(&mut self, place: &str) -> Result<Result<u64, String>, Death> {
        let Some(patched) = &self.patched else { return Err(unread()) };
        let texts = &patched.texts;
        let found = texts.whole(place).and_then(|address| Ok((address, texts.address("kprobe_table")?)));
        let (address, table) = match found {
            Ok(found) => found,
            Err(missing) => return Ok(Err(texts.explain(missing))),
        };
        let vmlinux = self.kernel.vmlinux().context(WITHOUT_VMLINUX).map_err(Death::Lab)?;
        let layout = KprobeLayout::of(&vmlinux).map_err(Death::Lab)?;
        let heads = self.memory(table, HEADS * 8)?;
        for head in heads.as_chunks().0 {
            let mut kprobe = u64::from_le_bytes(*head);
            for _ in 0..CHAIN_MAX {
                if kprobe == 0 {
                    break;
                }
                if self.pointer(kprobe.wrapping_add(layout.address))? == address {
                    let slot = self.pointer(kprobe.wrapping_add(layout.slot))?;
                    let simulated = || format!("the kprobe at `{place}` is simulated and has no slot");
                    return Ok(if slot == 0 { Err(simulated()) } else { Ok(slot) });
                }
                // The list is the first member, and its first member the next entry.
                kprobe = self.pointer(kprobe)?;
            }
        }
        Ok(Err(format!("no kprobe is registered at `{place}`")))
    }

    /// A pointer in the kernel's memory.
    pub(super) fn pointer(&mut self, address: u64) -> Result<u64, Death> {
        let bytes = self.memory(address, 8)?;
        Ok(u64::from_le_bytes(bytes.try_into().unwrap_or_default()))
    }
}
