//! The slots of kprobes, found in the kernel's hash table of all kprobes.

use super::{
    memory::{memory, pointer},
    sites::KernelText,
};
use crate::{kernel::text::KprobeLayout, machine::Death, recording::link::Link};
use std::path::Path;

/// The kernel's KPROBE_TABLE_SIZE, from 5.10 to 7.3.
const HEADS: u64 = 64;

/// If more kprobes than this have the same hash, the memory is not a hash table.
const CHAIN_MAX: usize = 1024;

/// Returns the address of the slot of the kprobe at `place`, or why it has none.
pub(super) fn slot(
    link: &mut Link<'_>,
    texts: &KernelText,
    vmlinux: &Path,
    place: &str,
) -> Result<Result<u64, String>, Death> {
    let found = texts.whole(place).and_then(|address| Ok((address, texts.address("kprobe_table")?)));
    let (address, table) = match found {
        Ok(found) => found,
        Err(missing) => return Ok(Err(texts.explain(missing))),
    };
    let layout = KprobeLayout::of(vmlinux).map_err(Death::Lab)?;
    let heads = memory(link, table, HEADS * 8)?;
    for head in heads.as_chunks().0 {
        let mut kprobe = u64::from_le_bytes(*head);
        for _ in 0..CHAIN_MAX {
            if kprobe == 0 {
                break;
            }
            if pointer(link, kprobe.wrapping_add(layout.address))? == address {
                let slot = pointer(link, kprobe.wrapping_add(layout.slot))?;
                let simulated = || format!("the kprobe at `{place}` is simulated and has no slot");
                return Ok(if slot == 0 { Err(simulated()) } else { Ok(slot) });
            }
            // The list is the first member, and its first member the next entry.
            kprobe = pointer(link, kprobe)?;
        }
    }
    Ok(Err(format!("no kprobe is registered at `{place}`")))
}
