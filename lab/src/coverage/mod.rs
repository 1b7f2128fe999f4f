//! Notes of machines → the kernel's lines, functions and branches that each scenario ran.
//!
//! QEMU notes the code that it translates (`lab/plugin`), so the kernel and the guest are the same with
//! and without the measurement. The line table of vmlinux turns addresses into lines.

mod affected;
mod annotated;
mod change;
mod difference;
mod fewest;
mod files;
mod lcov;
mod measured;
mod ranges;
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
pub use measured::{FileCoverage, Measured, Share, last_measured};
pub use ranges::Ranges;
pub(crate) use source::Presence;
pub use source::{Branch, Function, Line, Source};
pub use stored::Ran;
pub use tree::{changes_since, diff_since, text_at};

use crate::{
    kernel::{Kernel, build_id},
    machine::executed,
};
use anyhow::Result;
use std::path::Path;

/// Takes the notes of a machine that has ended out of its `directory`, and writes what it ran `to` a file. Does
/// nothing if it was not measured.
pub(crate) fn keep(kernel: &Kernel, directory: &Path, to: &Path) -> Result<()> {
    let Some(executed) = executed(directory)? else { return Ok(()) };
    let build_id = kernel.vmlinux().map_or(Ok(String::new()), |vmlinux| build_id(&vmlinux))?;
    Ran { build_id, code: executed.blocks.into_iter().collect(), lost: executed.lost }.store(to)
}
