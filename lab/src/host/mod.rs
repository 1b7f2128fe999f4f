//! What the machine under the lab offers: its tools, its packages, its signals.

pub mod actionlint;
pub mod apt;
pub mod browser;
pub mod deb;
pub mod drgn;
pub mod interrupt;
pub mod prerequisites;
pub mod process;
pub mod sources;
