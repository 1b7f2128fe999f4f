//! vmlinux and modules as ELF: where symbols are, and DWARF that can be read.
//!
//! vmlinux is linked. A module is not: its sections all begin at 0, and its DWARF waits to be
//! relocated. So each of its sections is given addresses of its own here, and what DWARF says of
//! addresses is moved there.

use anyhow::{Context, Result};
use gimli::{EndianSlice, LittleEndian};
use object::{
    Object, ObjectKind, ObjectSection, ObjectSymbol, RelocationKind, RelocationTarget, SectionIndex,
    SymbolKind,
};
use std::{borrow::Cow, collections::BTreeMap};

/// DWARF over bytes of little endian, which arm64 is.
pub(super) type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// What an unlinked section's addresses begin with: its number, above any section's size.
const SECTION_SHIFT: u32 = 32;

/// An ELF file's functions and DWARF.
pub(super) struct Elf<'a> {
    file: object::File<'a>,
    sections: BTreeMap<String, Cow<'a, [u8]>>,
}

impl<'a> Elf<'a> {
    /// Reads what `data` holds. Of a linked file nothing is copied.
    pub(super) fn parse(data: &'a [u8]) -> Result<Elf<'a>> {
        let file = object::File::parse(data).context("it is no ELF file")?;
        let unlinked = file.kind() == ObjectKind::Relocatable;
        let mut sections = BTreeMap::new();
        for section in file.sections() {
            let Ok(name) = section.name() else { continue };
            if !name.starts_with(".debug_") {
                continue;
            }
            let bytes = section.data().with_context(|| format!("cannot read `{name}`"))?;
            let bytes = match unlinked {
                true => Cow::Owned(relocated(&file, &section, bytes)),
                false => Cow::Borrowed(bytes),
            };
            sections.insert(name.to_owned(), bytes);
        }
        Ok(Elf { file, sections })
    }

    /// Its DWARF; sections that are not there are empty.
    pub(super) fn dwarf(&self) -> Result<gimli::Dwarf<Slice<'_>>> {
        let load = |id: gimli::SectionId| -> Result<Slice<'_>, gimli::Error> {
            Ok(EndianSlice::new(self.sections.get(id.name()).map_or(&[], |data| data), LittleEndian))
        };
        gimli::Dwarf::load(load).context("cannot read its DWARF")
    }

    /// Name, address and size in bytes of every symbol that is code, by address. The size is what
    /// kallsyms takes it to be: the distance to the next symbol.
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
                Some((name, symbol.address() + base(&self.file, section)))
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

/// Where a section's addresses begin, beyond what the file says.
fn base(file: &object::File<'_>, section: SectionIndex) -> u64 {
    if file.kind() == ObjectKind::Relocatable { (section.0 as u64) << SECTION_SHIFT } else { 0 }
}

/// A section of DWARF with its relocations done. One that makes no sense is left out.
fn relocated(file: &object::File<'_>, section: &object::Section<'_, '_>, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (offset, relocation) in section.relocations() {
        let RelocationTarget::Symbol(index) = relocation.target() else { continue };
        let (RelocationKind::Absolute, Ok(symbol)) = (relocation.kind(), file.symbol_by_index(index)) else {
            continue;
        };
        let target = symbol.section_index().and_then(|index| file.section_by_index(index).ok());
        // An offset into another section of DWARF stays what it is; code has an address.
        let is_dwarf = target
            .as_ref()
            .and_then(|target| target.name().ok())
            .is_some_and(|name| name.starts_with(".debug_"));
        let base = match target {
            Some(target) if !is_dwarf => base(file, target.index()),
            _ => 0,
        };
        let value = base.wrapping_add(symbol.address()).wrapping_add_signed(relocation.addend());
        let width = usize::from(relocation.size() / 8).min(8);
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        if let Some(field) = at.checked_add(width).and_then(|end| bytes.get_mut(at..end)) {
            field.copy_from_slice(&value.to_le_bytes()[..width]);
        }
    }
    bytes
}
