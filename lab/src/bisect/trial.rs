//! The scenario or reproducer that is run on each kernel, and the outcome of a run.

use crate::{
    cache::KeyBuilder,
    context::Lab,
    host::outage::{DISK_FULL, Outage},
    kernel::Kernel,
    progress::Progress,
    repro::Ready,
    reproducer::{self, Reproducer},
    results::{Results, ScenarioResult, Status},
    run::{Options, Prepared, Reporter, prepare, run, schedule::Rounds, select::Selection},
    scenario::{self, Scenario, ScenarioFile},
};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The maximum number of characters shown of a reason; the results have all of it.
const REASON_MAX: usize = 160;

/// The outcome of one run on a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// It passed.
    Passed,
    /// It failed because of the kernel.
    Failed(Failure),
    /// The kernel does not support the scenario, and why.
    Unsupported(String),
    /// Nothing, and why: events were lost, or the lab failed.
    Nothing(String),
}

/// A way to fail.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Failure {
    /// Identical for the same failure.
    pub fingerprint: String,
    /// Why it failed, in a sentence.
    pub reason: String,
}

/// A scenario or reproducer that is run on each kernel.
pub trait Trial {
    /// Its name, for messages.
    fn name(&self) -> &str;

    /// A digest of everything it runs.
    fn digest(&self) -> &str;

    /// Runs it `runs` times, or with `until_fail` until it does not pass. Results go into a directory
    /// `name`.
    fn run(&mut self, kernel: &Kernel, name: &str, runs: u32, until_fail: bool) -> Result<Vec<RunOutcome>>;
}

/// A scenario that passes on good kernels.
pub struct ScenarioTrial {
    name: String,
    /// The text, with one cell of a matrix expanded.
    text: String,
    digest: String,
    results: PathBuf,
    prepared: Prepared,
    options: Options,
    progress: Progress,
}

impl ScenarioTrial {
    /// Builds the guest that `scenario` runs in. Results go below `results`.
    pub fn new(
        lab: &Lab,
        (found, scenario): (ScenarioFile, Scenario),
        (results, jobs): (PathBuf, usize),
    ) -> Result<ScenarioTrial> {
        let text = scenario::stand_alone(&found)?;
        let digest = KeyBuilder::default().input("name", &found.name).input("text", &text).finish("scenario");
        let name = found.name.clone();
        // Each trial sets its kernel.
        let selection = Selection::all(Vec::new(), vec![(found, scenario)]);
        let options = Options { jobs, forget_passes: true, ..Options::new(&lab.root, selection, &results) };
        let prepared = prepare(lab, &options)?;
        let digest = digest.as_str().to_owned();
        Ok(ScenarioTrial { name, text, digest, results, prepared, options, progress: lab.progress.clone() })
    }
}

impl Trial for ScenarioTrial {
    fn name(&self) -> &str {
        &self.name
    }

    fn digest(&self) -> &str {
        &self.digest
    }

    fn run(&mut self, kernel: &Kernel, name: &str, runs: u32, until_fail: bool) -> Result<Vec<RunOutcome>> {
        let scenarios = self.options.selection.scenarios.clone();
        let mut kernel = kernel.clone();
        // A known bug counts as a failure here.
        kernel.spec.bugs.clear();
        self.options.selection = Selection::all(vec![kernel.name.clone()], scenarios);
        self.prepared.replace_kernels(kernel, &self.progress);
        self.options.results = self.results.join(name);
        self.options.rounds = rounds(runs);
        self.options.fail_fast = until_fail;
        let mut reporter = Reporter::new(&self.progress);
        let (results, _) = run(&self.prepared, &self.options, |event| reporter.draw(&event))?;
        samples(&results, &self.text)
    }
}

/// A reproducer whose failure recurs on bad kernels.
pub struct ReproTrial {
    reproducer: Reproducer,
    digest: String,
    lab: Lab,
    results: PathBuf,
}

impl ReproTrial {
    /// Creates a trial whose results go below `results`.
    pub fn new(lab: &Lab, reproducer: Reproducer, results: PathBuf) -> Result<ReproTrial> {
        let digest = KeyBuilder::default().input("text", reproducer.to_yaml()?).finish("reproducer");
        Ok(ReproTrial { reproducer, digest: digest.as_str().to_owned(), lab: lab.clone(), results })
    }
}

impl Trial for ReproTrial {
    fn name(&self) -> &str {
        &self.reproducer.name
    }

    fn digest(&self) -> &str {
        &self.digest
    }

    fn run(&mut self, kernel: &Kernel, name: &str, runs: u32, until_fail: bool) -> Result<Vec<RunOutcome>> {
        let ready = Ready::new(&self.lab, &self.reproducer, Some(kernel))?;
        let results = self.results.join(name);
        let mut reporter = Reporter::new(&self.lab.progress);
        let (results, _) = ready.run(&results, rounds(runs), until_fail, |event| reporter.draw(&event))?;
        samples(&results, &self.reproducer.scenario)
    }
}

/// Returns the rounds for a number of runs; a single run has no repeat number.
fn rounds(runs: u32) -> Rounds {
    if runs == 1 { Rounds::One } else { Rounds::Count(runs) }
}

/// Classifies the results of the scenario with this text. A full disk is an error: it says nothing of the
/// kernel, and must not be stored as a verdict on it.
fn samples(results: &Results, scenario: &str) -> Result<Vec<RunOutcome>> {
    let is_full =
        |result: &&ScenarioResult| result.status == Status::LabError && result.reason.contains(DISK_FULL);
    match results.scenarios.iter().find(is_full) {
        Some(result) => Err(Outage(result.reason.clone()).into()),
        None => Ok(results.scenarios.iter().map(|result| sample(result, scenario)).collect()),
    }
}

/// Classifies a result of the scenario with this text.
fn sample(result: &ScenarioResult, scenario: &str) -> RunOutcome {
    let shortened =
        |reason: &str| reason.lines().next().unwrap_or_default().chars().take(REASON_MAX).collect();
    let reason: String = shortened(&result.reason);
    match (result.status, reproducer::Failure::of(result, scenario)) {
        (Status::Passed, _) => RunOutcome::Passed,
        (Status::Unsupported, _) => RunOutcome::Unsupported(reason),
        (Status::Inconclusive, _) | (_, None) => RunOutcome::Nothing(format!("{}: {reason}", result.status)),
        (status, Some(failure)) => RunOutcome::Failed(Failure {
            fingerprint: failure.fingerprint,
            reason: format!("{status}: {reason}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{
        Outcome, OutcomeStatus, StepResult,
        fixture::{result, results},
    };

    fn failed(step: bool, expectation: &str, reason: &str) -> ScenarioResult {
        let outcome = |text: &str, status| Outcome { text: text.into(), status, detail: reason.into() };
        ScenarioResult {
            reason: format!("{expectation}: {reason}"),
            steps: vec![StepResult { text: "read: trace".into(), passed: step, ..StepResult::default() }],
            expectations: vec![outcome(expectation, OutcomeStatus::Failed)],
            ..result("a", Status::Failed)
        }
    }

    #[test]
    fn failures_are_the_same_if_the_same_is_broken() {
        let check = |a: &ScenarioResult, b: &ScenarioResult, same| match (sample(a, ""), sample(b, "")) {
            (RunOutcome::Failed(a), RunOutcome::Failed(b)) => {
                assert_eq!(a.fingerprint == b.fingerprint, same, "{a:?} {b:?}");
            }
            (a, b) => panic!("{a:?} {b:?}"),
        };
        check(&failed(true, "count is 5", "found 4"), &failed(true, "count is 5", "found 3"), true);
        check(&failed(true, "count is 5", "found 4"), &failed(true, "another", "found 4"), false);
        check(&failed(false, "count is 5", "x"), &failed(true, "count is 5", "x"), false);
        check(&failed(true, "x", ""), &result("a", Status::Hang), false);
        check(&result("a", Status::Hang), &result("a", Status::LostGuest), false);
    }

    #[test]
    fn a_full_disk_is_no_verdict_on_a_kernel() {
        let reason = "cannot write the trace: No space left on device (os error 28)".to_owned();
        let full = ScenarioResult { reason, ..result("a", Status::LabError) };
        let error = samples(&results(vec![result("a", Status::Passed), full]), "").unwrap_err();
        assert!(error.is::<Outage>(), "{error}");
        assert_eq!(samples(&results(vec![result("a", Status::Passed)]), "").unwrap(), [RunOutcome::Passed]);
    }

    #[test]
    fn what_is_not_the_kernels_tells_nothing() {
        assert_eq!(sample(&result("a", Status::Passed), ""), RunOutcome::Passed);
        assert!(matches!(sample(&result("a", Status::Unsupported), ""), RunOutcome::Unsupported(_)));
        assert!(matches!(sample(&result("a", Status::Inconclusive), ""), RunOutcome::Nothing(_)));
        assert!(matches!(sample(&result("a", Status::LabError), ""), RunOutcome::Nothing(_)));
    }
}
