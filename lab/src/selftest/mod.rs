//! The output of the kernel tree's selftests → one result per test, compared with the list of known
//! failures.
//!
//! Pure functions: `guest::selftests` prepares the tests for a guest, `recording::selftests` runs them
//! there. All output comes from the guest, and is truncated and cleaned here.

mod case;
mod ftracetest;
mod known;
mod read;
mod tap;

pub use case::{Case, CaseStatus};
pub use known::{Entry, Expected, Known};
pub use read::{Ended, Outcome, TestResult, read};

pub(crate) use {case::tally, known::hold};

/// The maximum number of results of a program.
const RESULTS_MAX: usize = 1000;

/// The maximum length of a name, and of the diagnostics of a result, in characters.
const NAME_MAX: usize = 120;
const DETAIL_MAX: usize = 1000;

/// Returns text of the guest on one line, truncated to `max` characters.
fn clean(text: &str, max: usize) -> String {
    let cleaned: String =
        text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(max).collect();
    cleaned.trim_end().to_owned()
}

#[cfg(test)]
mod tests;
