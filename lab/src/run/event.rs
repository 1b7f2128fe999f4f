//! Events that a run reports while it is in progress. The caller draws, counts or ignores them.

use crate::results::ScenarioResult;
use std::path::Path;

/// One event of a run.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// The run starts.
    Started {
        /// The expected number of results; `None` if the run has no fixed end.
        results: Option<usize>,
    },
    /// A scenario starts on a kernel.
    ScenarioStarted {
        /// The position of its result in the list, which identifies it.
        place: usize,
        /// The scenario's name.
        scenario: &'a str,
        /// The kernel's name.
        kernel: &'a str,
    },
    /// A scenario has ended. Its result is stored, and is reported as [`Event::Result`] after all earlier ones.
    ScenarioEnded {
        /// The position of its result in the list.
        place: usize,
        /// The number of results stored so far.
        stored: usize,
    },
    /// A result. Results are reported in the order of the list.
    Result {
        /// The result.
        result: &'a ScenarioResult,
        /// The directory of the run, which contains its files.
        directory: &'a Path,
    },
    /// About a second has passed, and scenarios are still running.
    Tick,
    /// An error that changes no result.
    Warning(String),
    /// No scenario is running any longer.
    Ended,
}
