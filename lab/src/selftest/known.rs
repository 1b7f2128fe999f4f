//! `guest/selftests/known.yaml`: tests that are known not to pass, each with its reason.
//!
//! ```yaml
//! - test: ftrace/test.d/kprobe/x.tc       # below tools/testing/selftests
//!   kernel: "6.12"                        # or a range, of kernels on which this was seen
//!   result: fails                         # or left_out: not run unless a step names it
//!   part: instance                        # the result that fails, by name; `whole` is that without a name
//!   reason: why
//! ```
//!
//! The list must be accurate: an entry for a test that does not exist is an error, and a test that does
//! not behave as its entry says fails. An entry excuses one result, and nothing on other kernels; no entry
//! excuses a program that crashes, exceeds its deadline or prints incomplete results.

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
    /// The kernels on which this was seen.
    pub kernel: VersionReq,
    /// The expected behaviour.
    pub result: Expected,
    /// The result that fails, by its name or as [`WHOLE`].
    #[serde(default)]
    pub part: Option<Line>,
    /// The reason for it.
    pub reason: Line,
}

/// The known behaviour of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// One of its results is a failure.
    Fails,
    /// It is not run, unless a step names exactly this test.
    LeftOut,
}

/// The `part` of a result without a name: that of ftracetest outside of an instance, and the only one of a
/// program without a protocol.
const WHOLE: &str = "whole";

impl Entry {
    /// Returns whether this entry is about a result with this name.
    fn is_of(&self, name: &str) -> bool {
        let name = if name.is_empty() { WHOLE } else { name };
        self.part.as_ref().is_some_and(|part| part.as_str() == name)
    }

    fn check(&self) -> Result<()> {
        let test = &self.test;
        match (self.result, &self.part) {
            (Expected::Fails, None) => {
                bail!("`{test}` has no `part`, expected the name of the result that fails, or `{WHOLE}`")
            }
            (Expected::LeftOut, Some(_)) => bail!("`{test}` is left out, and so has no `part`"),
            _ => Ok(()),
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
        let entries: Vec<Entry> = crate::yaml::from_str(text)?;
        entries.iter().try_for_each(Entry::check)?;
        Ok(Known { entries })
    }

    /// Returns the entries of a collection for a kernel. `tests` has the tests of the collection, as paths
    /// below `tools/testing/selftests`.
    ///
    /// # Errors
    /// An entry names a test that does not exist, or two entries name the same.
    pub fn of(&self, collection: &str, version: &KernelVersion, tests: &[String]) -> Result<Vec<Entry>> {
        let applies = |entry: &&Entry| entry.kernel.matches(version) && entry.test.collection() == collection;
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
    let known = known.iter().filter(|entry| entry.test.as_str() == test);
    let known: Vec<&Entry> = known.filter(|entry| entry.result == Expected::Fails).collect();
    let mut held = Vec::new();
    for entry in &known {
        if let Some(part) = &entry.part
            && !results.iter().any(|result| entry.is_of(&result.name))
        {
            let why = format!("the list of known failures has `{part}` of it, and no result is called that");
            held.push((String::new(), CaseStatus::Failed, why));
        }
    }
    held.extend(results.into_iter().map(
        |result| match known.iter().find(|entry| entry.is_of(&result.name)) {
            Some(entry) => against(entry, result),
            None => plain(result),
        },
    ));
    held
}

/// Returns the status of a result without an entry.
fn plain(result: TestResult) -> (String, CaseStatus, String) {
    let status = match result.outcome {
        Outcome::Passed => CaseStatus::Passed,
        Outcome::Failed | Outcome::Incomplete => CaseStatus::Failed,
        Outcome::Skipped => CaseStatus::Skipped,
        Outcome::ExpectedFailure => CaseStatus::KnownFailure,
        Outcome::TimedOut => CaseStatus::TimedOut,
    };
    (result.name, status, result.detail)
}

/// Compares a result with its entry.
fn against(entry: &Entry, result: TestResult) -> (String, CaseStatus, String) {
    let reason = &entry.reason;
    let found = result.outcome;
    let (name, status, detail) = plain(result);
    let did = match found {
        Outcome::Failed => return (name, CaseStatus::KnownFailure, reason.to_string()),
        Outcome::Passed => {
            let why =
                format!("passed, but is listed as known to fail ({reason}): remove its entry from the list");
            return (name, CaseStatus::UnexpectedPass, why);
        }
        Outcome::Incomplete => "did not end regularly",
        Outcome::Skipped => "was skipped",
        Outcome::ExpectedFailure => "failed as it says itself that it should",
        Outcome::TimedOut => "timed out",
    };
    let status = if status.is_good() { CaseStatus::Failed } else { status };
    let said = if detail.is_empty() { String::new() } else { format!(": {detail}") };
    (name, status, format!("it is known to fail ({reason}), and it {did}{said}"))
}

#[cfg(test)]
#[path = "known_tests.rs"]
mod tests;
