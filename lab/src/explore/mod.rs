//! Random operations on tracing × a model → scenarios that a kernel fails.
//!
//! [`operation`] has the operations, [`model`] what they must do. [`choose`] makes sequences, [`script`] writes
//! them as scenarios, which run like all others; [`shrink`] makes those smaller that fail.

mod choose;
mod hunt;
mod model;
mod operation;
mod script;
mod shrink;

pub use choose::OPERATIONS;
pub use hunt::{Finding, Hunt, Limits, Told};
