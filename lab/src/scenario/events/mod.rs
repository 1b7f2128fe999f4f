//! `trace:`, the tracing set up before the first step.

mod args;
pub(crate) mod fetch;
mod function;
mod kinds;
mod non_probes;
mod place;
mod probes;
mod trace_setup;

pub use args::Args;
pub use fetch::{FetchArg, PathError, Prototype};
pub use function::Function;
pub use kinds::{Definition, EventSpec, Probe, ProbeKind};
pub use non_probes::{Feed, Fields, StaticEvent, Synthetic, UserEvent};
pub use place::{UserPlace, UserPlaces};
pub(crate) use probes::WORKLOADS;
pub use probes::{Eprobe, Fexit, Fprobe, Kprobe, Kretprobe, Tprobe, Uprobe, Uretprobe};
pub use trace_setup::{Clock, DEFAULT_BUFFER_KB, Switch, TraceSetup};
