//! What the kernel tree's own selftests print → one result a test, held against what is known to
//! fail.
//!
//! Pure functions: how the tests are brought into a guest is `guest::selftests`, how they are run
//! there `recording::selftests`. Everything printed comes from the guest and is capped and cleaned
//! here.

mod case;
mod collection;
mod ftracetest;
mod known;
mod read;
mod tap;

pub use case::{Case, CaseStatus};
pub use collection::{COLLECTIONS, Collection, Kind};
pub use known::{Entry, Expected, Known};
pub use read::{Ended, Outcome, TestResult, read};

pub(crate) use {case::tally, known::hold};

/// Results that one program may print.
const RESULTS_MAX: usize = 1000;

/// The most of a name, and of what was said beside a result, that is kept, in characters.
const NAME_MAX: usize = 120;
const DETAIL_MAX: usize = 1000;

/// Text of the guest on one line and no longer than `max` characters.
fn clean(text: &str, max: usize) -> String {
    let cleaned: String =
        text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(max).collect();
    cleaned.trim_end().to_owned()
}

#[cfg(test)]
mod recorded_tests;
