//! ftrace-lab: scenario → kernel → machine → recording → verdict → report.
//!
//! The modules are layers: each imports only from those before it in the table of `docs/architecture.md`, which also
//! follows a scenario through them.

pub mod arm64;
pub mod bench;
pub mod bisect;
pub mod cache;
pub mod checks;
mod context;
pub mod coverage;
mod crash;
pub mod dump;
pub mod explain;
pub mod explore;
pub mod fit;
pub mod fleet;
pub mod guest;
pub mod history;
pub mod host;
pub mod init;
pub mod kernel;
pub mod live;
pub mod machine;
pub mod mutants;
pub mod plan;
pub mod progress;
pub mod publish;
pub mod recording;
pub mod report;
pub mod repro;
pub mod reproducer;
pub mod results;
pub mod run;
pub mod scenario;
pub mod selftest;
pub mod splat;
pub mod verdict;
pub mod words;
mod yaml;

pub use context::{Checkout, Lab, lay_out};
