//! Verdicts → what is stored and shown: `results.json`, `junit.xml`, `results.ktap`, `report.html`, the
//! terminal.

mod change;
#[cfg(test)]
pub(crate) mod fixture;
mod gather;
mod html;
mod junit;
mod ktap;
mod markdown;
mod merge;
mod model;
mod parting;
mod place;
mod rates;
mod terminal;

pub use change::{Change, Changes, Parting, compare};
pub(crate) use gather::adopt;
pub use gather::{put, put_new, runs_below};
pub use html::{REPORT, write_html};
pub use junit::write_junit;
pub use ktap::write_ktap;
pub use markdown::{Page, escaped, markdown};
pub use merge::{Merged, Part, Refused, SinceLast, merge, since};
pub use model::{Host, KernelInfo, Qemu, Results, Run, SCHEMA, ScenarioResult, StepResult};
pub use parting::side_by_side;
pub use place::{Place, RunDirectory, now, now_micros, point_latest, write_json};
pub(crate) use place::{partial, write_whole};
pub use rates::{Flake, Rates};
pub(crate) use terminal::printable;
pub use terminal::{Terminal, summary};

use anyhow::Result;
use std::path::Path;

/// Writes every form of a run's results beside `results.json`.
pub fn write_forms(results: &Results, run: &Path) -> Result<()> {
    write_junit(results, run)?;
    write_ktap(results, run)?;
    write_html(results, run)
}
