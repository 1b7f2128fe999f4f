//! The host's tools, packages, signals, failures and files.

pub mod apt;
pub mod beneath;
pub mod confine;
pub mod deb;
pub mod debian_rust;
pub mod drgn;
pub mod git;
pub mod interrupt;
pub mod oci;
pub mod outage;
pub mod prerequisites;
pub mod process;
pub mod scratch;
pub mod sources;
pub mod watch;
pub mod whole;
pub mod workflow;
