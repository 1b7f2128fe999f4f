//! A failed result → `repro.yaml` → [`Outcome`]: the same failure from one file, on any machine.
//!
//! [`leave`] writes the file beside a failure's other files. [`reproduce`] takes it from there: what it
//! brings is put into a directory of its own, built and run as a checkout would be. Of the checkout at
//! hand only the lab itself is taken, and the agent, which is a part of it.

mod collect;
mod file;
mod fingerprint;
mod flow;
mod minimize;
mod parts;
mod run;
mod trust;
mod yaml;

pub use collect::{Circumstances, leave};
pub use file::{INLINE_MAX, KernelUsed, LeftOut, Origin, QemuUsed, ReproError, Reproducer, SCHEMA};
pub use fingerprint::{Broken, Failure, Item};
pub use minimize::{Smaller, minimize};
pub use run::{Ready, differs, kernel_of, reproduce};

/// The file's name, in the directory of a failure.
pub const FILE: &str = "repro.yaml";

/// What running a reproducer came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It failed again, by the same expectation, step or splat, in the same way.
    Reproduced,
    /// It failed, but not so; in which way not.
    FailsOtherwise(String),
    /// It passed.
    Passes,
    /// The kernel lacks what the scenario requires; what that is.
    Unsupported(String),
}
