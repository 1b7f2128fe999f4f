//! Symbols and relocated DWARF of vmlinux and modules.

use crate::kernel::text::{DebugSections, Dwarf, section_offset};
use anyhow::{Context, Result};
use object::{Object, ObjectSymbol, SymbolKind};

/// An ELF file's functions and DWARF.
pub(super) struct Elf<'a> {
    file: object::File<'a>,
    sections: DebugSections<'a>,
}

impl<'a> Elf<'a> {
    /// Parses `data`. Nothing of a linked file is copied.
    pub(super) fn parse(data: &'a [u8]) -> Result<Elf<'a>> {
        let file = object::File::parse(data).context("it is not an ELF file")?;
        let sections = DebugSections::read(&file)?;
        Ok(Elf { file, sections })
    }

    /// Returns its DWARF; missing sections are empty.
    pub(super) fn dwarf(&self) -> Result<Dwarf<'_>> {
        self.sections.dwarf()
    }

    /// Returns name, address and size in bytes of every code symbol, sorted by address. As in kallsyms,
    /// the size is the distance to the next symbol.
    pub(super) fn functions(&self) -> Vec<(&str, u64, u64)> {
        let mut functions: Vec<(&str, u64)> = self
            .file
            .symbols()
            .filter(|symbol| {
                matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Unknown | SymbolKind::Label)
            })
            .filter_map(|symbol| {
                let name = symbol.name().ok().filter(|name| !name.is_empty() && !name.starts_with('$'))?;
                let section = symbol.section_index()?;
                Some((name, symbol.address().wrapping_add(section_offset(&self.file, section))))
            })
            .collect();
        functions.sort_by_key(|(_, address)| *address);
        let mut sized = Vec::with_capacity(functions.len());
        let mut next = u64::MAX;
        let mut end = u64::MAX;
        for (name, address) in functions.into_iter().rev() {
            if address != next {
                (end, next) = (next, address);
            }
            sized.push((name, address, end.saturating_sub(address)));
        }
        sized.reverse();
        sized
    }
}
