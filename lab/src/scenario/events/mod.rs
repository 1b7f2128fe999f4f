//! `trace:`, what is armed before the first step.

mod args;
mod kinds;
mod setup;

pub use args::Args;
pub use kinds::{EventSpec, Function, Kprobe, Kretprobe, Probe, ProbeKind, StaticEvent};
pub use setup::{Clock, DEFAULT_BUFFER_KB, Switch, TraceSetup};
