//! Notes of machines → the lines, functions and branches of the kernel and of modules that each scenario ran.
//!
//! QEMU notes the code that it translates (`lab/plugin`), so the kernel and the guest are the same with
//! and without the measurement. The line tables of vmlinux and of modules turn addresses into lines.

mod affected;
mod annotated;
mod change;
mod difference;
mod fewest;
mod files;
mod lcov;
mod loads;
mod measured;
mod modules;
mod ranges;
mod rows;
mod source;
mod stored;
mod symbols;
mod tree;

pub use affected::{Affected, Concerned, affected, never_run, take_slow};
pub use annotated::{AnnotatedFile, AnnotatedLine, annotated};
pub use change::FileChange;
pub use difference::{FileDifference, difference};
pub use fewest::{Fewest, fewest};
pub use files::SourceFiles;
pub use lcov::lcov;
pub(crate) use loads::Load;
pub use loads::{ModuleRan, SectionRan};
pub use measured::{FileCoverage, Measured, Share, last_measured};
pub use modules::MeasuredModule;
pub use ranges::Ranges;
pub(crate) use source::Presence;
pub use source::{Branch, Function, Line, Source};
pub use stored::Ran;
pub use tree::{changes_since, diff_since, text_at, top_of};

use crate::{
    kernel::{Kernel, build_id},
    machine::executed,
};
use anyhow::Result;
use std::path::Path;

/// Takes the notes of a machine that has ended out of its `directory`, and writes what it ran `to` a file, given
/// the modules that it loaded. Without a file, only takes them. Does nothing if it was not measured.
pub(crate) fn keep(kernel: &Kernel, directory: &Path, loads: &[Load], to: Option<&Path>) -> Result<()> {
    let (Some(executed), Some(to)) = (executed(directory)?, to) else { return Ok(()) };
    let build_id = kernel.vmlinux().map_or(Ok(String::new()), |vmlinux| build_id(&vmlinux))?;
    let modules = loads.iter().map(|load| load.ran(&executed.blocks)).collect();
    Ran { build_id, code: executed.blocks.into_iter().collect(), lost: executed.lost, modules }.store(to)
}
