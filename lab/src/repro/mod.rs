//! `repro.yaml`: reproduces a failure from one file, on any machine.
//!
//! [`leave`](crate::reproducer::leave) writes the file next to a failure's other files. [`Ready`] unpacks it into a
//! directory, and builds and runs it there like a checkout. Only the lab itself and its agent are taken from the
//! present checkout.

mod minimize;
mod run;
mod show;

pub use minimize::{Smaller, minimize};
pub use run::Ready;
pub use show::show;

/// The outcome of running a reproducer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It failed again: the same expectation, step or splat, in the same way.
    Reproduced,
    /// It failed differently, and how.
    FailsDifferently(String),
    /// It passed.
    Passes,
    /// The kernel does not meet the scenario's requirements, and why.
    Unsupported(String),
}
