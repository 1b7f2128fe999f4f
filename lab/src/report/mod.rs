//! Verdicts → what is stored and shown: `results.json`, `junit.xml`, the terminal.

mod junit;
mod model;
mod place;
mod terminal;

pub use junit::write_junit;
pub use model::{Host, KernelInfo, Qemu, Results, Run, SCHEMA, ScenarioResult, StepResult};
pub use place::{Place, RunDirectory, now, now_micros, point_latest, write_json};
pub use terminal::{Terminal, summary};
