//! Verdicts → what is stored and shown: `results.json`, `junit.xml`, the terminal.

mod change;
#[cfg(test)]
pub(crate) mod fixture;
mod gather;
mod junit;
mod markdown;
mod merge;
mod model;
mod parting;
mod place;
mod rates;
mod terminal;

pub use change::{Change, Changes, Parting, compare};
pub use gather::{put, put_new, runs_below};
pub use junit::write_junit;
pub use markdown::{Page, escaped, markdown};
pub use merge::{Merged, Part, Refused, SinceLast, merge, since};
pub use model::{Host, KernelInfo, Qemu, Results, Run, SCHEMA, ScenarioResult, StepResult};
pub use parting::side_by_side;
pub use place::{Place, RunDirectory, now, now_micros, point_latest, write_json};
pub(crate) use place::{partial, write_whole};
pub use rates::{Flake, Rates};
pub(crate) use terminal::printable;
pub use terminal::{Terminal, summary};
