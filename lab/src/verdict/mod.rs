//! `Scenario` × `Recording` → `Verdict`: the facts and the trace, judged.
//!
//! Each expectation becomes an evaluator that observes the events that it names, one by one, and keeps a
//! bounded number of them. One pass over the trace serves all. If lost events could have changed the
//! result of an expectation, it is inconclusive; otherwise it passes or fails in spite of them. The
//! `finish` of each evaluator decides that.

mod agreement;
mod comparison;
mod conclude;
mod count;
mod counters;
mod evaluate;
mod executed;
mod filter;
mod finding;
mod graph;
mod judge;
mod kernel_text;
mod latency;
mod leftovers;
mod losses;
mod observed;
mod pairs;
mod panic;
mod rejudge;
mod selector;
mod sequence;
mod stack;
mod values;

pub use conclude::{Conclusion, conclude};
pub use filter::Filter;
pub use judge::{Evidence, Judge, judge};
pub use observed::Observed;
pub use rejudge::judge_again;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
