//! ftrace's patch sites: two instructions at the beginning of a function, and before it, with CALL_OPS,
//! a literal that points to the function's ftrace_ops.

use super::{Binary, INSTRUCTION, Symbol, layout::Structure};
use crate::arm64;
use anyhow::{Context, Result, bail};
use fs_err as fs;
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

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

/// Offsets in the structures of ftrace's records, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordLayout {
    /// In `struct ftrace_page`, the pointer to the next page.
    pub(crate) next_page: u64,
    /// In `struct ftrace_page`, the pointer to its records.
    pub(crate) records: u64,
    /// In `struct ftrace_page`, the number of its records.
    pub(crate) count: u64,
    /// In `struct dyn_ftrace`, the address of the call.
    pub(crate) call: u64,
    /// In `struct dyn_ftrace`, its state.
    pub(crate) flags: u64,
    /// The size of `struct dyn_ftrace`.
    pub(crate) size: u64,
    /// In `struct ftrace_ops`, the pointer to the next one.
    pub(crate) next_ops: u64,
}

impl RecordLayout {
    /// Reads the layout of the kernel in `vmlinux` from BTF, with pahole.
    ///
    /// # Errors
    /// pahole fails, or the structures differ from those of 5.10 to 7.3.
    pub(crate) fn of(vmlinux: &Path) -> Result<RecordLayout> {
        // pahole takes longer than everything else that a step does.
        static READ: Mutex<BTreeMap<(PathBuf, SystemTime), RecordLayout>> = Mutex::new(BTreeMap::new());
        let key = (vmlinux.to_owned(), fs::metadata(vmlinux)?.modified()?);
        if let Some(layout) = READ.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(*layout);
        }
        let structure = |name: &str| Structure::of(vmlinux, name);
        let (page, record) = (structure("ftrace_page")?, structure("dyn_ftrace")?);
        let layout = RecordLayout::in_structures(&page, &record, &structure("ftrace_ops")?)
            .with_context(|| format!("`{}` has unknown records of ftrace", vmlinux.display()))?;
        READ.lock().unwrap_or_else(PoisonError::into_inner).insert(key, layout);
        Ok(layout)
    }

    fn in_structures(page: &Structure, record: &Structure, ops: &Structure) -> Option<RecordLayout> {
        Some(RecordLayout {
            next_page: page.offset("next")?,
            records: page.offset("records")?,
            count: page.offset("index")?,
            call: record.offset("ip")?,
            flags: record.offset("flags")?,
            size: record.size()?,
            next_ops: ops.offset("next")?,
        })
    }
}

impl Binary {
    /// Returns the patch site of a function, or `None` if it has no record, like a `notrace` function.
    ///
    /// # Errors
    /// The table of records cannot be read.
    pub fn ftrace_site(&self, function: &Symbol) -> Result<Option<FtraceSite>> {
        let records = self.known_records()?;
        // With CALL_OPS, a record has the address of the literal before the function.
        let reach = function.address.saturating_sub(2 * INSTRUCTION)..function.range().end;
        Ok(records
            .iter()
            .find(|record| reach.contains(record))
            .map(|record| self.adjusted(*record, function.address)))
    }

    /// Returns the patch sites of vmlinux that are not in code that is freed after boot. `call_ops` says
    /// whether there is a literal before each function.
    ///
    /// # Errors
    /// The table of records cannot be read, or its records are known only when the kernel runs.
    pub(crate) fn ftrace_sites(&self, call_ops: bool) -> Result<Vec<FtraceSite>> {
        // Code of init and, since a built-in module is never unloaded, of exit.
        let freed = self.address("__init_begin")?..self.address("__init_end")?;
        // The kernel skips records of functions that the linker dropped.
        let kept = |record: &&u64| **record != 0 && !freed.contains(*record);
        let site = |&record: &u64| {
            let function = if call_ops { record.wrapping_add(CALL_OPS_LITERAL) } else { record };
            self.adjusted(record, function)
        };
        Ok(self.known_records()?.iter().filter(kept).map(site).collect())
    }

    /// Reads the records once.
    fn known_records(&self) -> Result<&[u64]> {
        let records = match self.records.get() {
            Some(records) => records,
            None => {
                let read = self.records()?;
                self.records.get_or_init(|| read)
            }
        };
        if !records.is_empty() && records.iter().all(|record| *record == 0) {
            bail!("its ftrace records are all 0, expected a kernel without CONFIG_RELOCATABLE");
        }
        Ok(records)
    }

    /// Does what `ftrace_call_adjust()` does in the kernel.
    fn adjusted(&self, record: u64, function: u64) -> FtraceSite {
        let ops = (record < function).then_some(record);
        let mut address = record.max(function);
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
        self.addresses("__start_mcount_loc", "__stop_mcount_loc")
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
