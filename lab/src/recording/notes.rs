//! The notes of a step while it runs: its output files, its findings, values for later steps.

use super::captures::Captures;
use crate::{
    machine::Death,
    results::{LISTING_SUFFIX, StepResult, TextListing},
    selftest::Case,
};
use fs_err as fs;
use std::path::Path;

/// The notes of one step.
pub(super) struct StepNotes<'a> {
    /// The scenario's directory.
    directory: &'a Path,
    /// Whether its output is stored.
    pub(super) keeps_output: bool,
    /// The number of the step, from 1.
    pub(super) number: usize,
    /// Values that steps have captured.
    pub(super) captures: &'a mut Captures,
    /// The files with its output, relative to the scenario's directory.
    pub(super) output: Vec<String>,
    /// A text about what it found, shown if it passes.
    pub(super) found: String,
    /// The results of its selftests so far.
    pub(super) cases: Vec<Case>,
    /// The selftest that is running.
    pub(super) testing: Option<String>,
}

impl<'a> StepNotes<'a> {
    /// Begins the notes of step `number`.
    pub(super) fn new(directory: &'a Path, number: usize, captures: &'a mut Captures) -> StepNotes<'a> {
        let (output, cases) = (Vec::new(), Vec::new());
        let (found, testing) = (String::new(), None);
        StepNotes { directory, keeps_output: true, number, captures, output, found, cases, testing }
    }

    /// Stores an output of the step and names it in the step's result.
    pub(super) fn keep(&mut self, what: &str, data: &[u8]) -> Result<(), Death> {
        if self.keeps_output {
            let name = self.store(what, data)?;
            self.output.push(name);
        }
        Ok(())
    }

    /// Stores the instructions that the step read and names them in the step's result.
    pub(super) fn keep_listing(&mut self, listing: &TextListing) -> Result<(), Death> {
        if !self.keeps_output {
            return Ok(());
        }
        let json = serde_json::to_vec(listing).map_err(|error| Death::Lab(error.into()))?;
        let name = self.write(format!("steps/{}{LISTING_SUFFIX}", self.number), &json)?;
        self.output.push(name);
        Ok(())
    }

    /// Stores an output of the step. Returns its path relative to the scenario's directory.
    pub(super) fn store(&self, what: &str, data: &[u8]) -> Result<String, Death> {
        self.write(stored_name(self.number, what), data)
    }

    fn write(&self, name: String, data: &[u8]) -> Result<String, Death> {
        let path = self.directory.join(&name);
        let written = fs::create_dir_all(self.directory.join("steps")).and_then(|()| fs::write(&path, data));
        written.map_err(|error| Death::Lab(error.into()))?;
        Ok(name)
    }

    /// Returns the result of the step, which passed if nothing failed.
    pub(super) fn result(self, failures: &[String]) -> StepResult {
        let passed = failures.is_empty();
        let detail = if passed { self.found } else { failures.join("\n") };
        StepResult { passed, detail, output: self.output, cases: self.cases, ..StepResult::default() }
    }

    /// Returns the result of the step if the machine ended first.
    pub(super) fn interrupted(self) -> StepResult {
        let detail = match self.testing {
            Some(test) => format!("`{test}` did not end"),
            None => "it did not end".to_owned(),
        };
        StepResult { detail, cases: self.cases, ..StepResult::default() }
    }
}

/// Returns the path of a step's output, relative to the scenario's directory.
pub(super) fn stored_name(number: usize, what: &str) -> String {
    format!("steps/{number}-{what}.txt")
}
