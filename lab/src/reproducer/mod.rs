//! `repro.yaml`: a failed result in one file, with everything needed to reproduce it on another machine.

mod collect;
mod file;
mod fingerprint;
mod sources;
mod trust;

pub use collect::{RunContext, leave};
pub use file::{ExternalFile, INLINE_MAX, KernelUsed, Origin, QemuUsed, ReproError, Reproducer, SCHEMA};
pub(crate) use file::{MODULES, WORKLOADS};
pub use fingerprint::{Broken, Failure, Item};
pub(crate) use sources::still_needed;
#[doc(hidden)]
pub use trust::check as check_trust;

/// The name of the file, in the directory of a failed result.
pub const FILE: &str = "repro.yaml";
