//! `guest/selftests/known.yaml`: tests that are known not to pass, each with its reason.
//!
//! ```yaml
//! - test: ftrace/test.d/kprobe/x.tc       # below tools/testing/selftests
//!   part: instance                        # one of its results; default: the test as a whole
//!   kernel: ">=6.12, <7.2"                # default: all
//!   result: fails                         # or times_out, or left_out: not run unless named
//!   reason: why
//! ```
//!
//! The list must be accurate: an entry for a test that does not exist is an error, and a test that does
//! not behave as its entry says fails.

use super::{CaseStatus, Outcome, TestResult};
use crate::{
    kernel::{KernelVersion, VersionReq},
    scenario::{Line, SelftestPath},
    words::nearest_is,
};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::{fs, path::Path};

/// The maximum size of the file.
const FILE_MAX: u64 = 256 << 10;

/// All entries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    entries: Vec<Entry>,
}

/// The known behaviour of a test.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its path below `tools/testing/selftests`.
    pub test: SelftestPath,
    /// The name of one of its results; if absent, the test as a whole.
    #[serde(default)]
    pub part: Option<Line>,
    /// The kernels that it applies to; if absent, all.
    #[serde(default)]
    pub kernel: Option<VersionReq>,
    /// The expected behaviour.
    pub result: Expected,
    /// The reason for it.
    pub reason: Line,
}

/// The known behaviour of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// It fails.
    Fails,
    /// It exceeds its deadline.
    TimesOut,
    /// It is not run, unless a step names exactly this test.
    LeftOut,
}

impl Expected {
    fn outcome(self) -> Outcome {
        match self {
            Expected::TimesOut => Outcome::TimedOut,
            Expected::Fails | Expected::LeftOut => Outcome::Failed,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Expected::TimesOut => "known to time out",
            Expected::Fails | Expected::LeftOut => "known to fail",
        }
    }
}

impl Known {
    /// Reads the list.
    ///
    /// # Errors
    /// The file does not exist, is too large or is not such a list.
    pub fn load(path: &Path) -> Result<Known> {
        let read = || -> Result<Known> {
            ensure!(path.metadata()?.len() <= FILE_MAX, "it is larger than {} KiB", FILE_MAX >> 10);
            Known::parse(&fs::read_to_string(path)?)
        };
        read().with_context(|| format!("cannot read the known failures in `{}`", path.display()))
    }

    fn parse(text: &str) -> Result<Known> {
        Ok(Known { entries: crate::yaml::from_str(text)? })
    }

    /// Returns the entries of a collection for a kernel. `tests` has the tests of the collection, as paths
    /// below `tools/testing/selftests`.
    ///
    /// # Errors
    /// An entry names a test that does not exist, or two entries name the same.
    pub fn of(&self, collection: &str, version: &KernelVersion, tests: &[String]) -> Result<Vec<Entry>> {
        let applies = |entry: &&Entry| {
            let kernel = entry.kernel.as_ref().is_none_or(|kernel| kernel.matches(version));
            kernel && entry.test.collection() == collection
        };
        let entries: Vec<Entry> = self.entries.iter().filter(applies).cloned().collect();
        for (index, entry) in entries.iter().enumerate() {
            let test = entry.test.as_str();
            if !tests.iter().any(|known| known == test) {
                let near = nearest_is(test, tests);
                bail!("the list of known failures has `{test}`, which {version} does not have{near}");
            }
            if entries[..index].iter().any(|other| other.test == entry.test && other.part == entry.part) {
                bail!("the list of known failures has `{test}` twice for {version}");
            }
        }
        Ok(entries)
    }
}

/// Compares the results of the test at `test` with its known behaviour. Returns the part, the status and the
/// reason of each.
pub(crate) fn hold(
    test: &str,
    results: Vec<TestResult>,
    known: &[Entry],
) -> Vec<(String, CaseStatus, String)> {
    let known: Vec<&Entry> = known.iter().filter(|entry| entry.test.as_str() == test).collect();
    let is_whole = |entry: &&&Entry| entry.part.is_none() && entry.result != Expected::LeftOut;
    let mut whole = known.iter().find(is_whole).copied();
    let as_known = |result: &TestResult| whole.is_some_and(|entry| entry.result.outcome() == result.outcome);
    if results.iter().any(as_known) {
        // If the test is known to fail as a whole, one result that does is sufficient.
        let held = results.into_iter().map(|result| match (whole, part_of(&known, &result.name)) {
            (_, Some(entry)) => against(entry, result),
            (Some(entry), None) if entry.result.outcome() == result.outcome => against(entry, result),
            _ => plain(result),
        });
        return held.collect();
    }
    let mut held = Vec::new();
    for part in known.iter().filter_map(|entry| entry.part.as_ref()) {
        if !results.iter().any(|result| result.name == part.as_str()) {
            let why = format!("the list of known failures has `{part}` of it, and no result is called that");
            held.push((String::new(), CaseStatus::Failed, why));
        }
    }
    for result in results {
        let entry = part_of(&known, &result.name).or_else(|| whole.take());
        held.push(entry.map_or_else(|| plain(result.clone()), |entry| against(entry, result.clone())));
    }
    held
}

fn part_of<'a>(known: &[&'a Entry], name: &str) -> Option<&'a Entry> {
    known.iter().copied().find(|entry| entry.part.as_ref().is_some_and(|part| part.as_str() == name))
}

/// Returns the status of a result without an entry.
fn plain(result: TestResult) -> (String, CaseStatus, String) {
    let status = match result.outcome {
        Outcome::Passed => CaseStatus::Passed,
        Outcome::Failed => CaseStatus::Failed,
        Outcome::Skipped => CaseStatus::Skipped,
        Outcome::ExpectedFailure => CaseStatus::KnownFailure,
        Outcome::TimedOut => CaseStatus::TimedOut,
    };
    (result.name, status, result.detail)
}

/// Compares a result with its entry.
fn against(entry: &Entry, result: TestResult) -> (String, CaseStatus, String) {
    let (words, reason) = (entry.result.words(), &entry.reason);
    if result.outcome == entry.result.outcome() {
        return (result.name, CaseStatus::KnownFailure, reason.to_string());
    }
    let found = result.outcome;
    let (name, status, detail) = plain(result);
    if found == Outcome::Passed {
        let why = format!("passed, but is listed as {words} ({reason}): remove its entry from the list");
        return (name, CaseStatus::UnexpectedPass, why);
    }
    let status = if status.is_good() { CaseStatus::Failed } else { status };
    let said = if detail.is_empty() { String::new() } else { format!(": {detail}") };
    (name, status, format!("it is {words} ({reason}), and it {}{said}", did(found)))
}

fn did(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "passed",
        Outcome::Failed => "failed",
        Outcome::Skipped => "was skipped",
        Outcome::ExpectedFailure => "failed as it says itself that it should",
        Outcome::TimedOut => "timed out",
    }
}

#[cfg(test)]
#[path = "known_tests.rs"]
mod tests;
