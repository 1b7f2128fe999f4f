//! Loads of modules, and the code that ran while each was loaded.
//!
//! The kernel uses the memory of an unloaded module, and that of the init of a loaded one, for other code. So
//! a block counts for a module if it was noted while the module was there.

use super::Ranges;
use crate::{guest::Module, kernel::build_id};
use std::ops::Range;

/// The names of sections that the kernel frees when the module's init has returned begin with this.
pub(super) const INIT: &str = ".init.";

/// A module that a machine loaded. Its places in time are numbers of blocks that the machine had noted.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// The module.
    pub(crate) module: Module,
    /// The names and addresses of its sections with code; empty if they are not known.
    pub(crate) code: Vec<(String, Range<u64>)>,
    /// When loading it began.
    pub(crate) began: u64,
    /// When its init had returned. The same if the machine was restored with the module.
    pub(crate) loaded: u64,
    /// When it was unloaded, if it was.
    pub(crate) unloaded: Option<u64>,
}

/// What ran of a module while it was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleRan {
    /// Its name in the kernel.
    pub name: String,
    /// The build ID of its file.
    pub build_id: String,
    /// The directory of its sources, see [`Module::sources`].
    pub sources: Option<String>,
    /// Its sections with code. Empty if their addresses are not known, since the kernel did not load it. Without
    /// those of its init if the machine was restored with it.
    pub sections: Vec<SectionRan>,
}

/// What ran of a section of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionRan {
    /// The name of the section.
    pub name: String,
    /// The address at which it was loaded.
    pub address: u64,
    /// The code that ran, as distances from that address.
    pub ran: Ranges,
}

impl Load {
    /// Returns what ran of the module, given all blocks in the order in which they were noted.
    pub(super) fn ran(&self, blocks: &[Range<u64>]) -> ModuleRan {
        let section = |(name, code): &(String, Range<u64>)| {
            let end = if name.starts_with(INIT) { Some(self.loaded) } else { self.unloaded };
            let during = between(blocks, self.began, end).iter();
            let ran = during.map(|block| {
                let clamped = |address: u64| address.clamp(code.start, code.end) - code.start;
                clamped(block.start)..clamped(block.end)
            });
            SectionRan { name: name.clone(), address: code.start, ran: ran.collect() }
        };
        let has_run = |(name, _): &&(String, Range<u64>)| self.began < self.loaded || !name.starts_with(INIT);
        let Module { name, file, sources, .. } = &self.module;
        ModuleRan {
            name: name.clone(),
            // Without one, the file is not found again.
            build_id: build_id(file).unwrap_or_default(),
            sources: sources.clone(),
            sections: self.code.iter().filter(has_run).map(section).collect(),
        }
    }
}

/// Returns the blocks from one number to another, or to the last one; those that were not stored are missing.
fn between(blocks: &[Range<u64>], start: u64, end: Option<u64>) -> &[Range<u64>] {
    let place = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).min(blocks.len());
    let end = end.map_or(blocks.len(), place);
    blocks.get(place(start)..end).unwrap_or_default()
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lists of one range of addresses")]
mod tests {
    use super::*;
    use crate::kernel::text::SMALL_MODULE;
    use fs_err as fs;

    #[test]
    fn a_block_counts_while_the_module_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("small.ko");
        fs::write(&file, SMALL_MODULE).unwrap();
        let module = Module { name: "small".into(), debug: file.clone(), file, sources: None };
        let code = vec![(".text".to_owned(), 0x100..0x140), (".init.text".to_owned(), 0x200..0x240)];
        let blocks = [0x100..0x104, 0x104..0x108, 0x200..0x208, 0x208..0x20c, 0x10c..0x110, 0x13c..0x150];
        let check = |began, loaded, unloaded, text: &[Range<u64>], init: &[&[Range<u64>]]| {
            let load = Load { module: module.clone(), code: code.clone(), began, loaded, unloaded };
            let ran = load.ran(&blocks);
            assert_eq!(ran.build_id, "4cf9575f294fbf4f19676efc63add72d840c0080");
            let ranges = ran.sections.iter().map(|section| section.ran.iter().cloned().collect::<Vec<_>>());
            assert_eq!(ranges.collect::<Vec<_>>(), [&[text], init].concat());
        };
        check(1, 3, None, &[4..8, 0xc..0x10, 0x3c..0x40], &[&[0..8]]);
        check(1, 4, Some(4), &[4..8], &[&[0..0xc]]);
        check(0, 0, None, &[0..8, 0xc..0x10, 0x3c..0x40], &[]);
        check(5, 99, Some(99), &[0x3c..0x40], &[&[]]);
        check(99, 99, None, &[], &[]);
        check(4, 2, Some(2), &[], &[]);
    }
}
