//! `Scenario` × `Recording` → `Verdict`: what a trace says of the expectations.
//!
//! Each expectation becomes an evaluator that looks at the events it names, one by one, and keeps
//! a bounded amount of them; one pass over the trace feeds all. What lost events could have
//! changed is inconclusive; what they could not have changed is passed or failed all the same, and
//! each evaluator says at its `finish` which is which.

mod agreement;
mod comparison;
mod conclude;
mod condition;
mod count;
mod counters;
mod evaluate;
mod filter;
mod finding;
mod graph;
mod judge;
mod latency;
mod losses;
mod observed;
mod pairs;
mod selector;
mod sequence;
mod splat;
mod stack;
mod status;
mod values;

pub use agreement::Said;
pub use conclude::conclude;
pub use condition::Condition;
pub use filter::Filter;
pub use judge::{Evidence, Judge, judge};
pub use observed::Observed;
pub use splat::{
    Binaries, Frame, Place, Splat, blocked as blocked_stacks, decode, find as find_splats, step_mark,
};
pub(crate) use splat::{STEP_MARK, shortened};
pub use status::{Outcome, OutcomeStatus, Status, Verdict};

#[cfg(test)]
mod agreement_tests;
#[cfg(test)]
mod counters_tests;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod graph_tests;
#[cfg(test)]
mod sequence_tests;
#[cfg(test)]
mod tests;
