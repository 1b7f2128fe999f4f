//! The jump table: the instructions that static keys patch, `struct jump_entry` in linux/jump_label.h.

use super::Binary;
use anyhow::{Result, bail};

/// The size of an entry in bytes: two offsets of 32 bits and one of 64, each relative to its own address.
const ENTRY_SIZE: usize = 16;

/// A jump entry: an instruction that tests a static key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JumpEntry {
    /// The address of the instruction, a NOP or a branch.
    pub code: u64,
    /// The target of the branch.
    pub target: u64,
    /// The address of the key.
    pub key: u64,
    /// Whether it is a NOP while the key is enabled and a branch while it is disabled: the source
    /// has `static_branch_likely()`.
    pub likely: bool,
    /// Whether it is in memory that is freed after init.
    pub init: bool,
}

impl JumpEntry {
    /// Returns the instruction expected at `code` while the key is enabled or disabled.
    pub fn instruction(&self, enabled: bool) -> u32 {
        if enabled == self.likely { crate::arm64::NOP } else { crate::arm64::branch(self.code, self.target) }
    }
}

/// A table of jump entries.
pub struct JumpTable;

impl JumpTable {
    /// Parses the entries in `bytes`, which are at `address` in the kernel.
    ///
    /// # Errors
    /// The table is not a whole number of entries.
    pub fn read(address: u64, bytes: &[u8]) -> Result<Vec<JumpEntry>> {
        if !bytes.len().is_multiple_of(ENTRY_SIZE) {
            bail!("a jump table of {} bytes, expected entries of {ENTRY_SIZE}", bytes.len());
        }
        let entry = |(index, bytes): (usize, &[u8])| {
            let at = address.wrapping_add((index * ENTRY_SIZE) as u64);
            let relative = |offset: usize| -> Option<i32> {
                Some(i32::from_le_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?))
            };
            let key = i64::from_le_bytes(bytes.get(8..)?.try_into().ok()?);
            Some(JumpEntry {
                code: at.wrapping_add_signed(relative(0)?.into()),
                target: at.wrapping_add(4).wrapping_add_signed(relative(4)?.into()),
                key: at.wrapping_add(8).wrapping_add_signed(key & !3),
                likely: key & 1 != 0,
                init: key & 2 != 0,
            })
        };
        Ok(bytes.chunks_exact(ENTRY_SIZE).enumerate().filter_map(entry).collect())
    }
}

impl Binary {
    /// Returns the jump entries of vmlinux, those in init marked as the kernel marks them at boot. A
    /// module's entries are read from the running kernel instead.
    ///
    /// # Errors
    /// vmlinux has no jump labels.
    pub fn jump_entries(&self) -> Result<Vec<JumpEntry>> {
        let (address, bytes) = self.between("__start___jump_table", "__stop___jump_table")?;
        let init = self.address("__init_begin")?..self.address("__init_end")?;
        let entries = JumpTable::read(address, bytes)?;
        let marked = |entry: JumpEntry| JumpEntry { init: init.contains(&entry.code), ..entry };
        Ok(entries.into_iter().map(marked).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_relative_to_their_own_fields() {
        let entry = |code: i32, target: i32, key: i64| {
            [&code.to_le_bytes()[..], &target.to_le_bytes(), &key.to_le_bytes()].concat()
        };
        let table = [entry(-0x100, -0x84, 0x1000 + 1), entry(0x40, 0x50, -0x20 + 2)].concat();
        let read = JumpTable::read(0x8000, &table).unwrap();
        assert_eq!(
            read,
            [
                JumpEntry { code: 0x7f00, target: 0x7f80, key: 0x9008, likely: true, init: false },
                JumpEntry { code: 0x8050, target: 0x8064, key: 0x7ff8, likely: false, init: true },
            ]
        );
        // All four combinations of likely and enabled.
        let (nop, branch) = (0xd503_201f, 0x1400_0020);
        assert_eq!((read[0].instruction(true), read[0].instruction(false)), (nop, branch));
        assert_eq!((read[1].instruction(true), read[1].instruction(false)), (0x1400_0005, nop));
        assert!(JumpTable::read(0, &table[..17]).is_err());
    }
}
