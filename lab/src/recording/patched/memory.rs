//! Memory of the running kernel: instructions, tables, pointers.

use crate::{
    kernel::text::INSTRUCTION,
    machine::Death,
    recording::link::{Link, unexpected},
};
use protocol::{Reply, Request, SKIP};
use std::{collections::BTreeMap, iter};

/// The maximum that the agent reads at a time, in bytes.
const READ_MAX: u64 = 512 << 10;

/// Instructions that are at most this far from one to the next are read together, in bytes.
const NEAR: u64 = 16 << 10;

/// Reads the instructions at these addresses, and leaves out those that cannot be read.
pub(super) fn instructions(
    link: &mut Link<'_>,
    mut addresses: Vec<u64>,
) -> Result<BTreeMap<u64, u32>, Death> {
    addresses.sort_unstable();
    addresses.dedup();
    let words = sorted_instructions(link, &addresses)?;
    Ok(addresses.into_iter().zip(words).filter_map(|(address, word)| Some((address, word?))).collect())
}

/// Reads the instructions at these addresses, which are in ascending order. `None` is one that cannot be read.
pub(super) fn sorted_instructions(link: &mut Link<'_>, addresses: &[u64]) -> Result<Vec<Option<u32>>, Death> {
    let spans = spans(addresses);
    let request = |span: &&[u64]| Request::ReadInstructions { address: span[0], gaps: gaps(span) };
    let mut words = Vec::with_capacity(addresses.len());
    for (span, reply) in spans.iter().zip(link.call_all(&spans.iter().map(request).collect::<Vec<_>>())?) {
        let end = words.len() + span.len();
        if let Reply::Data(data) = reply {
            let read = data.chunks_exact(INSTRUCTION as usize).filter_map(|bytes| bytes.try_into().ok());
            words.extend(read.take(span.len()).map(|word| Some(u32::from_le_bytes(word))));
        }
        words.resize(end, None);
    }
    Ok(words)
}

/// Reads memory that must be readable.
pub(super) fn memory(link: &mut Link<'_>, address: u64, length: u64) -> Result<Vec<u8>, Death> {
    let end = address.saturating_add(length);
    let starts = (address..end).step_by(READ_MAX as usize);
    let requests: Vec<_> = starts
        .map(|start| Request::ReadMemory { address: start, length: (end - start).min(READ_MAX) as u32 })
        .collect();
    let mut bytes = Vec::new();
    for reply in link.call_all(&requests)? {
        match reply {
            Reply::Data(data) => bytes.extend(data),
            other => return Err(unexpected(&format!("{length} bytes at {address:#x}"), &other)),
        }
    }
    Ok(bytes)
}

/// Reads a pointer.
pub(super) fn pointer(link: &mut Link<'_>, address: u64) -> Result<u64, Death> {
    let bytes = memory(link, address, 8)?;
    Ok(u64::from_le_bytes(bytes.try_into().unwrap_or_default()))
}

/// Splits sorted addresses where the agent cannot read on.
fn spans(addresses: &[u64]) -> Vec<&[u64]> {
    let (mut spans, mut start) = (Vec::new(), 0);
    for end in 1..=addresses.len() {
        let (first, last) = (addresses[start], addresses[end - 1]);
        // The addresses may be any, since they are the guest's word.
        let ends = |next: u64| {
            next - last > NEAR
                || !(next - last).is_multiple_of(INSTRUCTION)
                || (next - first).saturating_add(INSTRUCTION) > READ_MAX
        };
        if addresses.get(end).is_none_or(|next| ends(*next)) {
            spans.push(&addresses[start..end]);
            start = end;
        }
    }
    spans
}

/// Returns how far it is from each address to the next, as [`Request::ReadInstructions`] has it.
fn gaps(span: &[u64]) -> Vec<u8> {
    let mut gaps = Vec::with_capacity(span.len());
    for two in span.windows(2) {
        let gap = (two[1] - two[0]) / INSTRUCTION - 1;
        gaps.extend(iter::repeat_n(SKIP, (gap / u64::from(SKIP)) as usize));
        gaps.push((gap % u64::from(SKIP)) as u8);
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_near_is_read_together_and_no_more_than_the_agent_reads() {
        assert!(spans(&[]).is_empty());
        let near = [0x1000, 0x1004, 0x1100, 0x14fc, 0x18fc, 0x20fc];
        assert_eq!(spans(&[near.as_slice(), &[0x9000]].concat()), [&near[..], &[0x9000]]);
        assert_eq!(gaps(&near), [0, 62, 254, 255, 0, 255, 255, 1]);
        // Not whole instructions apart.
        assert_eq!(spans(&[0x1000, 0x1001, 0x1007]), [&[0x1000], &[0x1001], &[0x1007]]);
        let many: Vec<u64> = (0..100_000).map(|index| index * 4).collect();
        let spans = spans(&many);
        assert_eq!(spans.concat(), many);
        assert!(spans.iter().all(|span| span[span.len() - 1] + INSTRUCTION - span[0] <= READ_MAX));
    }
}
