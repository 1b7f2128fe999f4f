//! The results of runs: `results.json` and the files next to it, their atomic writing, and merging, comparing and
//! counting the results of several runs.

mod change;
mod directories;
#[cfg(test)]
pub(crate) mod fixture;
mod gather;
mod layout;
mod listing;
mod merge;
mod model;
mod parts;
mod place;
mod rates;
mod shard;
mod status;
mod times;

pub use change::{Change, Changes, Divergence, Pace, compare};
pub(crate) use gather::adopt;
pub use gather::{Forms, put, put_new, runs_below};
pub use layout::{BOOT_COVERAGE, COVERAGE, EMPTY_COVERAGE, RECORDING, SCENARIO, TRACE, scenarios, trace_of};
pub(crate) use listing::{LISTING_SUFFIX, TextListing, TextWord};
pub use merge::{Delta, Gap, MergeError, MergeInput, Merged, merge, since};
pub(crate) use model::label;
pub use model::{Host, KernelInfo, PartOptions, Qemu, Results, Run, SCHEMA, ScenarioResult, StepResult};
pub use parts::last_tries;
pub use place::{PendingDirectory, RunDirectory, now, now_micros, write_json};
pub(crate) use place::{partial, point_latest};
pub(crate) use rates::wilson;
pub use rates::{Flake, Rates};
pub use shard::Shard;
pub use status::{Outcome, OutcomeStatus, Status, Verdict};
pub use times::{Times, stored_results};
