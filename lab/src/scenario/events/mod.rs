//! `trace:`, what is armed before the first step.

mod args;
mod check;
mod function;
mod kinds;
mod made;
mod place;
mod probes;
mod setup;

pub use args::Args;
pub(super) use check::check;
pub use function::Function;
pub use kinds::{Definition, EventSpec, Probe, ProbeKind};
pub use made::{Feed, Fields, StaticEvent, Synthetic, UserEvent};
pub use place::{UserPlace, UserPlaces};
pub(crate) use probes::WORKLOADS;
pub use probes::{Eprobe, Fexit, Fprobe, Kprobe, Kretprobe, Uprobe, Uretprobe};
pub use setup::{Clock, DEFAULT_BUFFER_KB, Switch, TraceSetup};
