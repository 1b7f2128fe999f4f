//! ftrace's patch sites: two instructions at the beginning of a function, and before it, with CALL_OPS,
//! a literal that points to the function's ftrace_ops.

use super::{Binary, INSTRUCTION, Symbol};
use crate::arm64;
use anyhow::{Context, Result, bail};
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget};

/// The patch site of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FtraceSite {
    /// The address of the first of its two instructions.
    pub address: u64,
    /// The address of the call_ops literal of 8 bytes before the function, if there is one.
    pub ops: Option<u64>,
}

/// The size of the call_ops literal, in bytes.
pub(crate) const CALL_OPS_LITERAL: u64 = 8;

/// Sections in which the compiler records each function that can be traced.
const RECORDS: [&str; 2] = ["__patchable_function_entries", "__mcount_loc"];

impl Binary {
    /// Returns the patch site of a function, or `None` if it has no record, like a `notrace` function.
    ///
    /// # Errors
    /// The table of records cannot be read.
    pub fn ftrace_site(&self, function: &Symbol) -> Result<Option<FtraceSite>> {
        let records = self.records()?;
        if !records.is_empty() && records.iter().all(|record| *record == 0) {
            bail!("its ftrace records are all 0, expected a kernel without CONFIG_RELOCATABLE");
        }
        // With CALL_OPS, a record has the address of the literal before the function.
        let reach = function.address.saturating_sub(2 * INSTRUCTION)..function.range().end;
        Ok(records
            .into_iter()
            .find(|record| reach.contains(record))
            .map(|record| self.adjusted(record, function)))
    }

    /// Does what `ftrace_call_adjust()` does in the kernel.
    fn adjusted(&self, record: u64, function: &Symbol) -> FtraceSite {
        let ops = (record < function.address).then_some(record);
        let mut address = record.max(function.address);
        if self.instruction(address).is_some_and(|word| arm64::BTI.contains(&word)) {
            address = address.wrapping_add(INSTRUCTION);
        }
        FtraceSite { address, ops }
    }

    /// Returns every record as an address in the running kernel: of a function, or of the literal of
    /// [`CALL_OPS_LITERAL`] bytes before it.
    ///
    /// # Errors
    /// The table of records cannot be read.
    pub(crate) fn records(&self) -> Result<Vec<u64>> {
        if self.bases.is_some() {
            return self.relocated_records();
        }
        let (_, bytes) = self.between("__start_mcount_loc", "__stop_mcount_loc")?;
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes);
        Ok(bytes.chunks_exact(8).filter_map(|bytes| word(bytes).ok()).collect())
    }

    /// Resolves the relocations of a module's records.
    fn relocated_records(&self) -> Result<Vec<u64>> {
        let file = self.file()?;
        let mut records = Vec::new();
        for name in RECORDS {
            let Some(section) = file.section_by_name(name) else { continue };
            for (_, relocation) in section.relocations() {
                let RelocationTarget::Symbol(symbol) = relocation.target() else { continue };
                let symbol = file.symbol_by_index(symbol)?;
                let Some(within) = symbol.section_index() else { continue };
                let within = file.section_by_index(within)?;
                let within_name = within.name().context("a section has no name")?;
                let Some(base) = self.section_base(within_name, within.address()) else { continue };
                let place = base.wrapping_add(symbol.address());
                records.push(place.wrapping_add_signed(relocation.addend()));
            }
        }
        Ok(records)
    }
}
