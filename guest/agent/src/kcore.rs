//! Kernel memory through /proc/kcore, an ELF core whose program headers map addresses to file offsets.

use crate::{
    refusal::{Refusal, Refused},
    vectored,
};
use protocol::SKIP;
use rustix::{
    fd::AsFd,
    fs::{Mode, OFlags, open},
    io::Errno,
};

/// The maximum length of a read, in bytes.
const LENGTH_MAX: u32 = 512 * 1024;

/// The size of an instruction, in bytes.
const INSTRUCTION: usize = 4;

/// The size of the ELF header, in bytes.
const HEADER: usize = 64;

/// The size of the start of the file to read at most, in bytes. Its headers take a page or two.
const HEADERS_MAX: usize = 64 * 1024;

const FILE: &str = "/proc/kcore";

/// Reads `length` bytes at `address`; EFAULT if no segment covers them. The kernel shows a hole inside
/// the vmalloc segment as zeros.
pub(crate) fn read_memory(address: u64, length: u32) -> Result<Vec<u8>, Refusal> {
    let what = format!("{length} bytes at {address:#x}");
    if length > LENGTH_MAX {
        return Err(Refusal::new(format!("read {what}"), Errno::INVAL));
    }
    let file = open(FILE, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).refused("open", FILE)?;
    let header = read_at(&file, 0, HEADER).refused("read", FILE)?;
    let headers = read_at(&file, 0, headers_length(&header)).refused("read", FILE)?;
    let segments = segments(&headers).ok_or_else(|| Refusal::new("parse /proc/kcore", Errno::NOEXEC))?;
    let offset = file_offset(&segments, address, u64::from(length))
        .ok_or_else(|| Refusal::new(format!("read {what}"), Errno::FAULT))?;
    let data = read_at(&file, offset, length as usize).refused("read", &what)?;
    if data.len() < length as usize {
        return Err(Refusal::new(format!("read {what}"), Errno::FAULT));
    }
    Ok(data)
}

/// Reads the instruction at `address`, and others behind it, as [`protocol::Request::ReadInstructions`] has their gaps.
/// EFAULT as for [`read_memory`].
pub(crate) fn read_instructions(address: u64, gaps: &[u8]) -> Result<Vec<u8>, Refusal> {
    let (offsets, length) = offsets(gaps);
    let all = read_memory(address, u32::try_from(length).unwrap_or(u32::MAX))?;
    Ok(offsets.iter().flat_map(|at| &all[*at..*at + INSTRUCTION]).copied().collect())
}

/// Returns the offsets of instructions with these gaps, and the length of all, in bytes.
fn offsets(gaps: &[u8]) -> (Vec<usize>, usize) {
    let mut offsets = vec![0];
    let mut end = INSTRUCTION;
    for gap in gaps {
        end += usize::from(*gap) * INSTRUCTION;
        if *gap < SKIP {
            offsets.push(end);
            end += INSTRUCTION;
        }
    }
    (offsets, end)
}

/// Reads up to `length` bytes at a file offset, fewer at the end of the file.
fn read_at(file: impl AsFd, offset: u64, length: usize) -> Result<Vec<u8>, Errno> {
    let mut data = vec![0; length];
    let mut filled = 0;
    while filled < length {
        match vectored::read_at(&file, &mut data[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    data.truncate(filled);
    Ok(data)
}

/// A PT_LOAD segment: `length` bytes of memory at `address` are at `offset` in the file.
#[derive(Debug, PartialEq, Eq)]
struct Segment {
    address: u64,
    length: u64,
    offset: u64,
}

/// Returns the length of the ELF header and the program headers, which follow it.
fn headers_length(header: &[u8]) -> usize {
    let program_headers = || Some(usize::from(u16_at(header, 54)?) * usize::from(u16_at(header, 56)?));
    (HEADER + program_headers().unwrap_or_default()).min(HEADERS_MAX)
}

/// Returns the loadable segments of a little-endian ELF64, or `None` for anything else.
fn segments(elf: &[u8]) -> Option<Vec<Segment>> {
    if elf.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let table = usize::try_from(u64_at(elf, 32)?).ok()?;
    let entry_size = usize::from(u16_at(elf, 54)?);
    let count = usize::from(u16_at(elf, 56)?);
    let mut segments = Vec::new();
    for index in 0..count {
        let entry = elf.get(table.checked_add(index.checked_mul(entry_size)?)?..)?;
        if u32::from_le_bytes(entry.get(..4)?.try_into().ok()?) == 1 {
            segments.push(Segment {
                offset: u64_at(entry, 8)?,
                address: u64_at(entry, 16)?,
                length: u64_at(entry, 40)?,
            });
        }
    }
    Some(segments)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

/// Returns the file offset of `address` if one segment covers all `length` bytes.
fn file_offset(segments: &[Segment], address: u64, length: u64) -> Option<u64> {
    segments.iter().find_map(|segment| {
        let within = address.checked_sub(segment.address)?;
        let end = within.checked_add(length)?;
        (end <= segment.length).then(|| segment.offset.checked_add(within)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(segments: &[(u32, u64, u64, u64)]) -> Vec<u8> {
        let mut elf = vec![0; 64];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        elf[32..40].copy_from_slice(&64_u64.to_le_bytes());
        elf[54..56].copy_from_slice(&56_u16.to_le_bytes());
        elf[56..58].copy_from_slice(&(segments.len() as u16).to_le_bytes());
        for (kind, offset, address, length) in segments {
            let mut entry = [0; 56];
            entry[..4].copy_from_slice(&kind.to_le_bytes());
            entry[8..16].copy_from_slice(&offset.to_le_bytes());
            entry[16..24].copy_from_slice(&address.to_le_bytes());
            entry[40..48].copy_from_slice(&length.to_le_bytes());
            elf.extend(entry);
        }
        elf
    }

    fn check(address: u64, length: u64, expect: Option<u64>) {
        let elf = elf(&[
            (4, 0x100, 0xffff_8000_0000_0000, 0x1000),
            (1, 0x2000, 0xffff_8000_0000_0000, 0x1000),
            (1, 0x8000, u64::MAX - 0xfff, 0xfff),
        ]);
        assert_eq!(file_offset(&segments(&elf).unwrap(), address, length), expect);
    }

    #[test]
    fn a_gap_may_be_longer_than_a_byte_counts() {
        assert_eq!(offsets(&[]), (vec![0], 4));
        assert_eq!(offsets(&[0, 254, SKIP, 0, SKIP, SKIP, 1]), (vec![0, 4, 1024, 2048, 4096], 4100));
    }

    #[test]
    fn an_address_is_found_in_its_segment() {
        check(0xffff_8000_0000_0000, 4, Some(0x2000));
        check(0xffff_8000_0000_0ffc, 4, Some(0x2ffc));
        check(0xffff_8000_0000_0ffd, 4, None);
        check(0xffff_8000_0000_1000, 1, None);
        check(0, 8, None);
        check(u64::MAX - 3, 2, Some(0x8000 + 0xffc));
        check(u64::MAX - 3, 8, None);
        check(u64::MAX, u64::MAX, None);
    }

    #[test]
    fn what_is_no_elf_or_cut_short_has_no_segments() {
        let whole = elf(&[(1, 0, 0, 1)]);
        assert_eq!(headers_length(&whole), whole.len());
        assert_eq!([headers_length(b"#!/bin/sh"), headers_length(&[0xff; HEADER])], [HEADER, HEADERS_MAX]);
        assert_eq!(segments(&whole).map(|found| found.len()), Some(1));
        for length in 0..whole.len() - 8 {
            assert_eq!(segments(&whole[..length]), None, "of {length} bytes");
        }
        assert_eq!(segments(b"#!/bin/sh"), None);
    }
}
