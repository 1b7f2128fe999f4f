//! The DWARF of vmlinux and modules.
//!
//! vmlinux is linked. A module is not: all of its sections begin at 0, and its DWARF has relocations. So
//! each of its sections gets a separate address range here, and its DWARF is relocated to these.

use anyhow::{Context, Result};
use gimli::{EndianSlice, LittleEndian};
use object::{
    Object, ObjectKind, ObjectSection, ObjectSymbol, RelocationKind, RelocationTarget, SectionIndex,
};
use std::{borrow::Cow, collections::BTreeMap};

/// DWARF in little-endian bytes, the byte order of arm64 kernels.
pub(crate) type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// The DWARF of a file.
pub(crate) type Dwarf<'a> = gimli::Dwarf<Slice<'a>>;

/// The addresses of an unlinked section begin at its index shifted by this, above any section's size.
const SECTION_SHIFT: u32 = 32;

/// The sections with the DWARF of an ELF file. Those of a linked file are not copied.
pub(crate) struct DebugSections<'a>(BTreeMap<String, Cow<'a, [u8]>>);

impl<'a> DebugSections<'a> {
    /// Reads the sections, and relocates those of a file that is not linked.
    ///
    /// # Errors
    /// A section cannot be read.
    pub(crate) fn read(file: &object::File<'a>) -> Result<DebugSections<'a>> {
        let unlinked = file.kind() == ObjectKind::Relocatable;
        let mut sections = BTreeMap::new();
        for section in file.sections() {
            let Ok(name) = section.name() else { continue };
            if !name.starts_with(".debug_") {
                continue;
            }
            let bytes = section.data().with_context(|| format!("cannot read `{name}`"))?;
            let bytes = match unlinked {
                true => Cow::Owned(relocated(file, &section, bytes)),
                false => Cow::Borrowed(bytes),
            };
            sections.insert(name.to_owned(), bytes);
        }
        Ok(DebugSections(sections))
    }

    /// Returns the DWARF; missing sections are empty.
    ///
    /// # Errors
    /// It is corrupt.
    pub(crate) fn dwarf(&self) -> Result<Dwarf<'_>> {
        let load = |id: gimli::SectionId| -> Result<Slice<'_>, gimli::Error> {
            Ok(EndianSlice::new(self.0.get(id.name()).map_or(&[], |data| data), LittleEndian))
        };
        gimli::Dwarf::load(load).context("cannot read its DWARF")
    }
}

/// Returns the offset to add to the addresses of a section: 0 in a linked file.
pub(crate) fn section_offset(file: &object::File<'_>, section: SectionIndex) -> u64 {
    if file.kind() == ObjectKind::Relocatable { (section.0 as u64) << SECTION_SHIFT } else { 0 }
}

/// Returns a DWARF section with its relocations applied. Invalid relocations are skipped.
fn relocated(file: &object::File<'_>, section: &object::Section<'_, '_>, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (offset, relocation) in section.relocations() {
        let RelocationTarget::Symbol(index) = relocation.target() else { continue };
        let (RelocationKind::Absolute, Ok(symbol)) = (relocation.kind(), file.symbol_by_index(index)) else {
            continue;
        };
        let target = symbol.section_index().and_then(|index| file.section_by_index(index).ok());
        // An offset into another DWARF section stays unchanged; an address of code is moved.
        let is_dwarf = target
            .as_ref()
            .and_then(|target| target.name().ok())
            .is_some_and(|name| name.starts_with(".debug_"));
        let base = match target {
            Some(target) if !is_dwarf => section_offset(file, target.index()),
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
