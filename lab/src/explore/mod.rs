//! Random operations on tracing × a model → scenarios that a kernel fails.
//!
//! [`operation`] has the operations, [`model`] what they must do to the [`state`] of tracing. [`choose`] makes sequences, [`script`] writes
//! them as scenarios, which run like all others; [`shrink`] makes those smaller that fail.

mod choose;
mod hunt;
mod model;
mod operation;
mod script;
mod shape;
mod shrink;
mod state;

pub use choose::OPERATIONS;
pub use hunt::{Finding, Hunt, Limits, Told};
