//! `guest/selftests/known.yaml`: tests that are known not to pass, each with its reason.
//!
//! ```yaml
//! - test: ftrace/test.d/kprobe/x.tc       # below tools/testing/selftests
//!   part: instance                        # one of its results; without it the test as a whole
//!   kernel: ">=6.12, <7.2"                # default: all
//!   result: fails                         # or times_out, or left_out: not run unless it is named
//!   reason: why
//! ```
//!
//! The list has to be true: an entry for a test that is not there is an error, and one whose test
//! does anything else than the entry says fails.

use super::{CaseStatus, Outcome, TestResult};
use crate::{
    kernel::{KernelVersion, VersionReq},
    scenario::{Line, SelftestPath, nearest},
};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::{fs, path::Path};

/// A list that is longer is none.
const FILE_MAX: u64 = 256 << 10;

/// All entries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    entries: Vec<Entry>,
}

/// What is known of one test.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its path below `tools/testing/selftests`.
    pub test: SelftestPath,
    /// One of its results, by name; the test as a whole if it is absent.
    #[serde(default)]
    pub part: Option<Line>,
    /// The kernels of which it is known.
    #[serde(default)]
    pub kernel: Option<VersionReq>,
    /// What it does.
    pub result: Expected,
    /// Why.
    pub reason: Line,
}

/// What a test is known to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// It fails.
    Fails,
    /// It does not end in time.
    TimesOut,
    /// It is not run, unless a step names it alone.
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
    /// Reads the list; one that is not there is empty.
    ///
    /// # Errors
    /// A file that is too long or no such list.
    pub fn load(path: &Path) -> Result<Known> {
        let read = || -> Result<Known> {
            ensure!(path.metadata()?.len() <= FILE_MAX, "it is longer than {} KiB", FILE_MAX >> 10);
            Known::parse(&fs::read_to_string(path)?)
        };
        read().with_context(|| format!("cannot read the known failures in `{}`", path.display()))
    }

    fn parse(text: &str) -> Result<Known> {
        Ok(Known { entries: serde_yaml::from_str(text)? })
    }

    /// The entries for a kernel, of the collection whose tests are `tests`, as paths below
    /// `tools/testing/selftests`.
    ///
    /// # Errors
    /// An entry for a test that is not there, and two for the same.
    pub fn of(&self, collection: &str, version: &KernelVersion, tests: &[String]) -> Result<Vec<Entry>> {
        let applies = |entry: &&Entry| {
            let kernel = entry.kernel.as_ref().is_none_or(|kernel| kernel.matches(version));
            kernel && entry.test.collection() == collection
        };
        let entries: Vec<Entry> = self.entries.iter().filter(applies).cloned().collect();
        for (index, entry) in entries.iter().enumerate() {
            let test = entry.test.as_str();
            if !tests.iter().any(|known| known == test) {
                let near = nearest(test, tests.iter().map(String::as_str));
                let near = near.map(|near| format!("; the nearest is `{near}`")).unwrap_or_default();
                bail!("the list of known failures has `{test}`, which {version} does not have{near}");
            }
            if entries[..index].iter().any(|other| other.test == entry.test && other.part == entry.part) {
                bail!("the list of known failures has `{test}` twice for {version}");
            }
        }
        Ok(entries)
    }
}

/// What the results of the test at `test` come to, in view of what is known of it: for each its part,
/// its status, and why.
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
        // Of its results, those that are as known are enough.
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

/// A result of which nothing is known.
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

/// A result against what is known of it.
fn against(entry: &Entry, result: TestResult) -> (String, CaseStatus, String) {
    let (words, reason) = (entry.result.words(), &entry.reason);
    if result.outcome == entry.result.outcome() {
        return (result.name, CaseStatus::KnownFailure, reason.to_string());
    }
    let found = result.outcome;
    let (name, status, detail) = plain(result);
    if found == Outcome::Passed {
        let why = format!("it passed, and is {words} ({reason}): its entry in the list can go");
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
