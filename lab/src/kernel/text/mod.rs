//! The kernel text in its files: where functions are, and which of their instructions the running
//! kernel patches.
//!
//! vmlinux is linked, and not relocated when it boots. A module is linked when it is loaded, so the
//! caller must pass the addresses of its sections. Files are mapped, not copied.

mod dwarf;
mod ftrace;
mod jump;
mod kprobe;
mod layout;

pub(crate) use dwarf::{DebugSections, Dwarf, Slice, section_offset};
pub(crate) use ftrace::CALL_OPS_LITERAL;
pub use ftrace::FtraceSite;
pub(crate) use ftrace::RecordLayout;
pub use jump::{JumpEntry, JumpTable};
pub(crate) use kprobe::KprobeLayout;

use anyhow::{Context, Result, bail};
use fs_err::File;
use memmap2::Mmap;
use object::{Object, ObjectKind, ObjectSection, ObjectSymbol, SectionFlags, SymbolKind, elf};
use std::{
    cell::{OnceCell, RefCell},
    collections::{BTreeMap, HashMap},
    ops::Range,
    path::Path,
};

/// The size of an arm64 instruction, in bytes.
pub const INSTRUCTION: u64 = 4;

/// The type of a relocation that is an address of the same file: `R_AARCH64_RELATIVE`.
const RELATIVE: u64 = 1027;

/// vmlinux, or a loaded module.
#[derive(Debug)]
pub struct Binary {
    map: Mmap,
    /// The addresses of a module's sections; `None` for vmlinux, whose file has them.
    bases: Option<BTreeMap<String, u64>>,
    /// The loaded sections that have contents: the address in the running kernel, and the place in the file.
    places: OnceCell<Vec<(u64, Range<usize>)>>,
    symbols: OnceCell<Vec<Symbol>>,
    /// The positions in `symbols` of the names that were asked for.
    named: RefCell<HashMap<String, Vec<usize>>>,
    /// The records of ftrace, as [`Binary::records`] reads them.
    records: OnceCell<Vec<u64>>,
}

/// A symbol, with its address in the running kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The position of its name in the file.
    name: Range<usize>,
    /// The address of its first byte.
    pub address: u64,
    /// Its size in bytes, or 0 if the compiler gives none.
    pub size: u64,
    /// Whether it is code.
    pub code: bool,
}

impl Symbol {
    /// The addresses it covers, at least one.
    pub fn range(&self) -> Range<u64> {
        self.address..self.address.saturating_add(self.size.max(1))
    }
}

impl Binary {
    /// Maps vmlinux.
    ///
    /// # Errors
    /// The file does not exist or is not a linked ELF file.
    pub fn vmlinux(path: &Path) -> Result<Binary> {
        let binary = Binary::mapped(path, None)?;
        if binary.file().with_context(|| path.display().to_string())?.kind() == ObjectKind::Relocatable {
            bail!("`{}` is not linked, expected vmlinux", path.display());
        }
        Ok(binary)
    }

    /// Maps a module whose sections, by name, were loaded at the addresses in `bases`.
    ///
    /// # Errors
    /// The file does not exist or is not a relocatable ELF file.
    pub fn module(path: &Path, bases: BTreeMap<String, u64>) -> Result<Binary> {
        let binary = Binary::mapped(path, Some(bases))?;
        if binary.file().with_context(|| path.display().to_string())?.kind() != ObjectKind::Relocatable {
            bail!("`{}` is linked, expected a module", path.display());
        }
        Ok(binary)
    }

    /// Maps a module that is not loaded: each of its sections of code has a separate address range, that of
    /// [`DebugSections`].
    ///
    /// # Errors
    /// Like [`Binary::module`].
    pub(crate) fn unloaded(path: &Path) -> Result<Binary> {
        let mut binary = Binary::module(path, BTreeMap::new())?;
        let file = binary.file()?;
        let base = |section: object::Section<'_, '_>| {
            Some((section.name().ok()?.to_owned(), section_offset(&file, section.index())))
        };
        let bases = file.sections().filter(is_code).filter_map(base).collect();
        binary.bases = Some(bases);
        Ok(binary)
    }

    fn mapped(path: &Path, bases: Option<BTreeMap<String, u64>>) -> Result<Binary> {
        let (places, symbols, named, records) = Default::default();
        Ok(Binary { map: map(path)?, bases, places, symbols, named, records })
    }

    pub(crate) fn file(&self) -> Result<object::File<'_>> {
        object::File::parse(&*self.map).context("not an ELF file")
    }

    /// The address of a section in the running kernel, if it is loaded.
    fn section_base(&self, name: &str, address: u64) -> Option<u64> {
        match &self.bases {
            None => Some(address),
            Some(bases) => bases.get(name).copied(),
        }
    }

    /// Returns the symbols that have an address, in no particular order. They are read once.
    ///
    /// # Errors
    /// The file is corrupt.
    pub fn symbols(&self) -> Result<&[Symbol]> {
        if self.symbols.get().is_none() {
            let read = self.read_symbols()?;
            return Ok(self.symbols.get_or_init(|| read));
        }
        Ok(self.symbols.get().map_or(&[], |symbols| symbols))
    }

    fn read_symbols(&self) -> Result<Vec<Symbol>> {
        let file = self.file()?;
        let mut starts = HashMap::new();
        for section in file.sections() {
            let Ok(name) = section.name() else { continue };
            // A linked symbol has its final address; a module's is relative to its section.
            let start = match &self.bases {
                None => 0,
                Some(bases) => match bases.get(name) {
                    Some(base) => *base,
                    None => continue,
                },
            };
            starts.insert(section.index(), start);
        }
        let start_of_map = self.map.as_ptr() as usize;
        let mut symbols = Vec::new();
        for symbol in file.symbols() {
            let (Ok(name), Some(section)) = (symbol.name(), symbol.section_index()) else { continue };
            let Some(start) = starts.get(&section) else { continue };
            // `$x` and `$d` mark code and data for disassemblers.
            if !name.is_empty() && !name.starts_with('$') {
                let at = name.as_ptr() as usize - start_of_map;
                symbols.push(Symbol {
                    name: at..at + name.len(),
                    address: start.wrapping_add(symbol.address()),
                    size: symbol.size(),
                    code: symbol.kind() == SymbolKind::Text,
                });
            }
        }
        Ok(symbols)
    }

    /// A symbol's name.
    pub fn name(&self, symbol: &Symbol) -> &str {
        let name = self.map.get(symbol.name.clone()).unwrap_or_default();
        str::from_utf8(name).unwrap_or_default()
    }

    /// Returns the symbols of this name; static functions of several files may share one.
    ///
    /// # Errors
    /// Like [`Binary::symbols`].
    pub fn named(&self, name: &str) -> Result<Vec<&Symbol>> {
        let symbols = self.symbols()?;
        if let Some(known) = self.named.borrow().get(name) {
            return Ok(known.iter().filter_map(|at| symbols.get(*at)).collect());
        }
        let is = |(_, symbol): &(usize, &Symbol)| self.map.get(symbol.name.clone()) == Some(name.as_bytes());
        let (places, found) = symbols.iter().enumerate().filter(is).unzip();
        self.named.borrow_mut().insert(name.to_owned(), places);
        Ok(found)
    }

    /// Returns the file's contents for `length` bytes of the kernel at `address`, as they were before
    /// anything was patched. `None` for a module, since its file is not relocated.
    pub fn contents(&self, address: u64, length: usize) -> Option<&[u8]> {
        if self.bases.is_some() { None } else { self.unrelocated(address, length) }
    }

    /// Returns the same, but also of a module, whose references to other sections are not resolved.
    pub(crate) fn unrelocated(&self, address: u64, length: usize) -> Option<&[u8]> {
        self.places().iter().find_map(|(base, place)| {
            let at = usize::try_from(address.checked_sub(*base)?).ok()?;
            let end = at.checked_add(length).filter(|end| *end <= place.len())?;
            self.map.get(place.start.checked_add(at)?..place.start.checked_add(end)?)
        })
    }

    /// Reads them once: parsing the file for each instruction would take longer than all else.
    fn places(&self) -> &[(u64, Range<usize>)] {
        self.places.get_or_init(|| {
            let Ok(file) = self.file() else { return Vec::new() };
            let place = |section: object::Section<'_, '_>| {
                let base = self.section_base(section.name().ok()?, section.address())?;
                let (start, size) = section.file_range().filter(|_| base != 0)?;
                let start = usize::try_from(start).ok()?;
                Some((base, start..start.checked_add(usize::try_from(size).ok()?)?))
            };
            file.sections().filter_map(place).collect()
        })
    }

    /// Returns the instruction that the file has for `address`.
    pub fn instruction(&self, address: u64) -> Option<u32> {
        let bytes = self.contents(address, INSTRUCTION as usize)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    /// Returns the address of a symbol of vmlinux.
    ///
    /// # Errors
    /// There is no such symbol.
    pub fn address(&self, name: &str) -> Result<u64> {
        let symbol = self.named(name)?.first().map(|symbol| symbol.address);
        symbol.with_context(|| format!("it has no symbol `{name}`"))
    }

    /// Returns the address of the first of two symbols of vmlinux, and the bytes between them.
    fn between(&self, start: &str, stop: &str) -> Result<(u64, &[u8])> {
        let (from, to) = (self.address(start)?, self.address(stop)?);
        let length = to.checked_sub(from).with_context(|| format!("`{stop}` is before `{start}`"))?;
        let bytes = self.contents(from, usize::try_from(length)?);
        Ok((from, bytes.with_context(|| format!("it has no bytes from `{start}` to `{stop}`"))?))
    }

    /// Returns a table of addresses between two symbols of vmlinux.
    fn addresses(&self, start: &str, stop: &str) -> Result<Vec<u64>> {
        let (from, bytes) = self.between(start, stop)?;
        let mut table: Vec<u64> = words(bytes).collect();
        // A kernel that can be relocated has zeros there, which it replaces when it boots.
        if table.iter().all(|address| *address == 0) {
            let file = self.file()?;
            let relocations =
                file.section_by_name(".rela.dyn").map_or(Ok(&[][..]), |section| section.data())?;
            for entry in relocations.chunks_exact(3 * 8) {
                let mut entry = words(entry);
                let (Some(place), Some(kind), Some(address)) = (entry.next(), entry.next(), entry.next())
                else {
                    continue;
                };
                let index = place.checked_sub(from).map(|distance| usize::try_from(distance / 8));
                if let (true, Some(Ok(index))) = (kind == RELATIVE, index)
                    && let Some(word) = table.get_mut(index)
                {
                    *word = address;
                }
            }
        }
        Ok(table)
    }

    /// Returns the address range of a loaded section.
    pub fn section(&self, name: &str) -> Option<Range<u64>> {
        let file = self.file().ok()?;
        let section = file.section_by_name(name)?;
        let base = self.section_base(name, section.address())?;
        Some(base..base.checked_add(section.size())?)
    }

    /// Returns the address ranges of the loaded sections that contain code.
    ///
    /// # Errors
    /// The file is corrupt.
    pub fn code(&self) -> Result<Vec<Range<u64>>> {
        self.ranges(is_code)
    }

    /// Returns the names and address ranges of the loaded sections that contain code.
    ///
    /// # Errors
    /// The file is corrupt.
    pub(crate) fn code_sections(&self) -> Result<Vec<(String, Range<u64>)>> {
        let file = self.file()?;
        let named = |section: object::Section<'_, '_>| {
            let name = section.name().ok()?;
            Some((name.to_owned(), self.section(name)?))
        };
        Ok(file.sections().filter(is_code).filter_map(named).collect())
    }

    /// Returns the address ranges of the loaded sections that a module needs only in its init.
    ///
    /// # Errors
    /// The file is corrupt.
    pub fn init(&self) -> Result<Vec<Range<u64>>> {
        self.ranges(|section| section.name().is_ok_and(|name| name.starts_with(".init.")))
    }

    /// Returns the address ranges of all loaded sections.
    ///
    /// # Errors
    /// The file is corrupt.
    pub fn loaded(&self) -> Result<Vec<Range<u64>>> {
        self.ranges(|_| true)
    }

    fn ranges(&self, wanted: impl Fn(&object::Section<'_, '_>) -> bool) -> Result<Vec<Range<u64>>> {
        let file = self.file()?;
        let range = |section: object::Section<'_, '_>| {
            let base = self.section_base(section.name().ok()?, section.address())?;
            Some(base..base.checked_add(section.size())?)
        };
        Ok(file.sections().filter(wanted).filter_map(range).collect())
    }

    /// Returns the ranges that boot patches with constants or, from `.altinstructions`, with instructions
    /// for the CPU, sorted by address.
    ///
    /// # Errors
    /// The table is not a whole number of entries.
    pub fn alternatives(&self) -> Result<Vec<Range<u64>>> {
        /// `struct alt_instr` of arm64: two self-relative offsets, a capability, two lengths.
        const SIZE: usize = 12;
        let (start, bytes) = self.between("__alt_instructions", "__alt_instructions_end")?;
        if !bytes.len().is_multiple_of(SIZE) {
            bail!("its table of alternatives has {} bytes, expected entries of {SIZE}", bytes.len());
        }
        let entry = |(index, entry): (usize, &[u8])| {
            let offset = i32::from_le_bytes(entry.get(..4)?.try_into().ok()?);
            let address = start.wrapping_add((index * SIZE) as u64).wrapping_add_signed(offset.into());
            Some(address..address.saturating_add((*entry.get(10)?).into()))
        };
        let mut ranges: Vec<_> = bytes.chunks_exact(SIZE).enumerate().filter_map(entry).collect();
        ranges.extend(self.runtime_constants()?);
        ranges.sort_by_key(|range| range.start);
        Ok(ranges)
    }

    /// Instructions that load a constant whose value is known only at boot (6.13).
    fn runtime_constants(&self) -> Result<Vec<Range<u64>>> {
        /// Four instructions load 64 bits; fewer bits take fewer.
        const LONGEST: u64 = 4 * INSTRUCTION;
        let mut ranges = Vec::new();
        for section in self.file()?.sections() {
            let name = section.name().unwrap_or_default();
            let (address, size) = (section.address(), section.size() as usize);
            let Some(bytes) = name.strip_prefix("runtime_").and_then(|_| self.contents(address, size)) else {
                continue;
            };
            for (index, offset) in bytes.chunks_exact(4).enumerate() {
                let offset = i32::from_le_bytes(offset.try_into()?);
                let place = address.wrapping_add(index as u64 * 4).wrapping_add_signed(offset.into());
                ranges.push(place..place.saturating_add(LONGEST));
            }
        }
        Ok(ranges)
    }
}

/// Returns whether a section contains code.
fn is_code(section: &object::Section<'_, '_>) -> bool {
    let SectionFlags::Elf { sh_flags, .. } = section.flags() else { return false };
    sh_flags.contains(elf::SHF_EXECINSTR)
}

/// Maps a file of a build, or a dump.
pub(crate) fn map(path: &Path) -> Result<Mmap> {
    let file = File::open(path)?;
    // SAFETY: finished builds in the cache are replaced as a whole, and nothing writes to a dump once its
    // guest is gone; were the file truncated anyway, this process would die of SIGBUS and corrupt nothing.
    unsafe { Mmap::map(&file) }.with_context(|| format!("cannot map `{}`", path.display()))
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(8).filter_map(|bytes| bytes.try_into().map(u64::from_le_bytes).ok())
}

/// A file in the form of a module, with DWARF: `lab/tests/fixtures/modules`.
#[cfg(test)]
pub(crate) const SMALL_MODULE: &[u8] = include_bytes!("../../../tests/fixtures/modules/small.ko.debug");
