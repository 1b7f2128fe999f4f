//! What the machine under the lab offers: its tools, its packages, its signals.

pub mod interrupt;
pub mod process;
