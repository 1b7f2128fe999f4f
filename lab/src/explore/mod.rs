//! Random operations on tracing × a model → scenarios that a kernel fails.
//!
//! [`families`] has the operations, each family with what it must do to the [`state`] of tracing. [`choose`]
//! makes sequences, [`script`] writes them as scenarios, which run like all others; [`shrink`] makes those
//! smaller that fail. [`guide`] keeps those that reach new code in the [`corpus`], which begins with [`seeds`], and
//! [`fewer`] those that matter.

mod choose;
mod corpus;
mod draw;
mod event_file;
mod facts;
mod families;
mod fewer;
mod filter;
mod guide;
mod hunt;
#[cfg(test)]
mod model_tests;
mod names;
mod probe;
mod script;
mod seeds;
mod shrink;
mod signature;
mod state;
mod triage;

pub use choose::{OPERATIONS, areas};
pub use corpus::Corpus;
pub use guide::Reached;
pub use hunt::{Finding, Hunt, ONCE, Search, Told, default_jobs};
pub use triage::{Tried, mail};
