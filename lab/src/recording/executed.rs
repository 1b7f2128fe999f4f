//! The functions that QEMU executed, for a comparison with those that were traced.

use super::link::Link;
use crate::{
    coverage::Ranges,
    kernel::{
        Kernel, WITHOUT_VMLINUX,
        text::{Binary, INSTRUCTION},
    },
    machine::Death,
};
use anyhow::{Context, Result};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    ops::Range,
};

/// The name of the text with [`ExecutedCalls`] among the files that are stored.
const FILE: &str = "executed";

/// The addresses at which functions call ftrace if they are traced, of those that QEMU executed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ExecutedCalls {
    /// The addresses of all that the kernel has, executed or not.
    pub(crate) all: Range<u64>,
    /// Those executed while the steps ran.
    pub(crate) in_steps: BTreeSet<u64>,
    /// Those executed only before or after.
    pub(crate) outside: BTreeSet<u64>,
}

impl ExecutedCalls {
    /// Returns the stored ones, or `None` if the file is missing or corrupt.
    pub(crate) fn stored(files: &BTreeMap<String, String>) -> Option<ExecutedCalls> {
        let mut calls = ExecutedCalls::default();
        for line in files.get(FILE)?.lines() {
            let (what, address) = line.split_once(' ')?;
            let address = u64::from_str_radix(address, 16).ok()?;
            match what {
                "first" => calls.all.start = address,
                "end" => calls.all.end = address,
                "steps" => _ = calls.in_steps.insert(address),
                "outside" => _ = calls.outside.insert(address),
                _ => return None,
            }
        }
        Some(calls)
    }

    /// The file's name and its text.
    fn to_file(&self) -> (String, String) {
        let mut text = String::new();
        let ends = [("first", &self.all.start), ("end", &self.all.end)].into_iter();
        let steps = self.in_steps.iter().map(|address| ("steps", address));
        let outside = self.outside.iter().map(|address| ("outside", address));
        for (what, address) in ends.chain(steps).chain(outside) {
            _ = writeln!(text, "{what} {address:x}");
        }
        (FILE.to_owned(), text)
    }
}

/// Returns what is stored about the functions that the guest executed, given the numbers of blocks that it
/// had noted before and after the steps. If not all blocks fit the notes, nothing is.
pub(super) fn executed_calls(
    link: &Link<'_>,
    kernel: &Kernel,
    steps: Range<u64>,
) -> Result<Option<(String, String)>, Death> {
    let executed = link.machine.executed_so_far().map_err(Death::Lab)?;
    if executed.lost > 0 {
        return Ok(None);
    }
    let calls = calls(kernel).map_err(Death::Lab)?;
    let during = |number: u64| steps.contains(&number);
    let ran = |wanted: bool| -> Ranges {
        let numbered = (0..).zip(&executed.blocks).filter(|(number, _)| during(*number) == wanted);
        numbered.map(|(_, block)| block.clone()).collect()
    };
    let (in_steps, outside) = (ran(true), ran(false));
    let all = calls.first().copied().unwrap_or(0)..calls.last().map_or(0, |last| last + INSTRUCTION);
    let mut found = ExecutedCalls { all, ..ExecutedCalls::default() };
    for call in calls {
        if in_steps.contains(call) {
            found.in_steps.insert(call);
        } else if outside.contains(call) {
            found.outside.insert(call);
        }
    }
    Ok(Some(found.to_file()))
}

/// Returns the addresses of the calls in vmlinux, sorted.
fn calls(kernel: &Kernel) -> Result<Vec<u64>> {
    let vmlinux = Binary::vmlinux(&kernel.vmlinux().context(WITHOUT_VMLINUX)?)?;
    let sites = vmlinux.ftrace_sites(kernel.config().is_set("DYNAMIC_FTRACE_WITH_CALL_OPS"))?;
    let mut calls: Vec<u64> = sites.into_iter().map(|site| site.address + INSTRUCTION).collect();
    calls.sort_unstable();
    Ok(calls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_read() {
        let calls = ExecutedCalls {
            all: 0x1000..0x9000,
            in_steps: [0x1004].into(),
            outside: [0x2004, 0x3004].into(),
        };
        assert_eq!(ExecutedCalls::stored(&BTreeMap::from([calls.to_file()])), Some(calls));
        let corrupt = BTreeMap::from([(FILE.to_owned(), "steps x\n".to_owned())]);
        assert_eq!(ExecutedCalls::stored(&corrupt), None);
        assert_eq!(ExecutedCalls::stored(&BTreeMap::new()), None);
    }
}
