//! Memory of the running kernel: instructions, tables, pointers.

use crate::{
    kernel::text::INSTRUCTION,
    machine::Death,
    recording::link::{Link, unexpected},
};
use protocol::{Reply, Request};
use std::collections::BTreeMap;

/// The maximum that the agent reads at a time, in bytes.
const READ_MAX: u64 = 64 << 10;

/// Instructions that are closer than this are read together, in bytes.
const NEAR: u64 = 1 << 10;

/// Reads the instructions at these addresses, and leaves out those that cannot be read.
pub(super) fn instructions(
    link: &mut Link<'_>,
    mut addresses: Vec<u64>,
) -> Result<BTreeMap<u64, u32>, Death> {
    addresses.sort_unstable();
    addresses.dedup();
    let mut words = BTreeMap::new();
    let spans = spans(&addresses);
    let requests: Vec<_> = spans
        .iter()
        .map(|(start, length)| Request::ReadMemory { address: *start, length: *length as u32 })
        .collect();
    let replies = link.call_all(&requests)?;
    for ((start, length), reply) in spans.into_iter().zip(replies) {
        let Reply::Data(data) = reply else { continue };
        let end = start + length;
        let first = addresses.partition_point(|address| *address < start);
        for address in addresses[first..].iter().take_while(|address| **address < end) {
            let at = (address - start) as usize;
            if let Some(bytes) = data.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()) {
                words.insert(*address, u32::from_le_bytes(bytes));
            }
        }
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

/// Returns the starts and lengths, in bytes, of reads that cover all of these sorted addresses.
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
