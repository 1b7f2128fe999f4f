//! What is run on each kernel, and what one run tells.

use crate::{
    cache::{Cache, KeyBuilder},
    kernel::Kernel,
    progress::Progress,
    report::ScenarioResult,
    repro::{self, Ready, Reproducer},
    run::{Options, Prepared, prepare, run, schedule::Rounds, select::Selection},
    scenario::{self, Found, Scenario},
    verdict::Status,
};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// So many characters of a reason are told; the rest is with the results.
const REASON_MAX: usize = 160;

/// What one run tells of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sample {
    /// It passed.
    Passed,
    /// It failed, and the kernel is why.
    Failed(Failure),
    /// This kernel cannot have it, and why.
    Unsupported(String),
    /// Nothing, and why: events were lost, or the lab could not do its part.
    Nothing(String),
}

/// A way to fail.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Failure {
    /// The same for failures that are the same.
    pub fingerprint: String,
    /// What happened, in a sentence.
    pub reason: String,
}

/// What is run on each kernel.
pub trait Trial {
    /// Its name, for messages.
    fn name(&self) -> &str;

    /// Changes whenever what it runs does.
    fn digest(&self) -> &str;

    /// Runs it so often, or until it does not pass. What it leaves goes into a directory of this name.
    fn run(&mut self, kernel: &Kernel, name: &str, runs: u32, until_fail: bool) -> Result<Vec<Sample>>;
}

/// A scenario, which passes on a good kernel.
pub struct ScenarioTrial {
    name: String,
    /// Of a matrix, one cell.
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
        cache: &Cache,
        root: &Path,
        (found, scenario): (Found, Scenario),
        (results, jobs): (PathBuf, usize),
        progress: &Progress,
    ) -> Result<ScenarioTrial> {
        let text = scenario::bound(&found)?;
        let digest = KeyBuilder::default().input("name", &found.name).input("text", &text).finish("scenario");
        let name = found.name.clone();
        let options = Options {
            root: root.to_owned(),
            // Its kernel is put there each time.
            selection: Selection::all(Vec::new(), vec![(found, scenario)]),
            kernel_tree: None,
            jobs,
            results: results.clone(),
            rounds: Rounds::One,
            fail_fast: false,
            forget_passes: true,
            shuffle: None,
            shard: None,
            cases: None,
        };
        let prepared = prepare(cache, &options, progress)?;
        let digest = digest.as_str().to_owned();
        Ok(ScenarioTrial { name, text, digest, results, prepared, options, progress: progress.clone() })
    }
}

impl Trial for ScenarioTrial {
    fn name(&self) -> &str {
        &self.name
    }

    fn digest(&self) -> &str {
        &self.digest
    }

    fn run(&mut self, kernel: &Kernel, name: &str, runs: u32, until_fail: bool) -> Result<Vec<Sample>> {
        let scenarios = self.options.selection.scenarios.clone();
        let mut kernel = kernel.clone();
        // Whether it is a known bug is not what is asked.
        kernel.spec.bugs.clear();
        self.options.selection = Selection::all(vec![kernel.name.clone()], scenarios);
        self.prepared.replace_kernels(kernel, &self.progress);
        self.options.results = self.results.join(name);
        self.options.rounds = rounds(runs);
        self.options.fail_fast = until_fail;
        let (results, _) = run(&self.prepared, &self.options, &self.progress, |_, _| {})?;
        Ok(results.scenarios.iter().map(|result| sample(result, &self.text)).collect())
    }
}

/// A failure from its file, which is seen again on a bad kernel.
pub struct ReproTrial {
    reproducer: Reproducer,
    digest: String,
    cache: Cache,
    root: PathBuf,
    results: PathBuf,
    progress: Progress,
}

impl ReproTrial {
    /// Results go below `results`.
    pub fn new(
        cache: &Cache,
        root: &Path,
        reproducer: Reproducer,
        results: PathBuf,
        progress: &Progress,
    ) -> Result<ReproTrial> {
        let digest = KeyBuilder::default().input("text", reproducer.to_yaml()?).finish("reproducer");
        Ok(ReproTrial {
            reproducer,
            digest: digest.as_str().to_owned(),
            cache: cache.clone(),
            root: root.to_owned(),
            results,
            progress: progress.clone(),
        })
    }
}

impl Trial for ReproTrial {
    fn name(&self) -> &str {
        &self.reproducer.name
    }

    fn digest(&self) -> &str {
        &self.digest
    }

    fn run(&mut self, kernel: &Kernel, name: &str, runs: u32, until_fail: bool) -> Result<Vec<Sample>> {
        let ready = Ready::new(&self.cache, &self.root, &self.reproducer, Some(kernel), &self.progress)?;
        let results = self.results.join(name);
        let (results, _) = ready.run(&results, rounds(runs), until_fail, &self.progress, |_, _| {})?;
        Ok(results.scenarios.iter().map(|result| sample(result, &self.reproducer.scenario)).collect())
    }
}

/// One run carries no number.
fn rounds(runs: u32) -> Rounds {
    if runs == 1 { Rounds::One } else { Rounds::Count(runs) }
}

/// What a result of the scenario with this text tells.
fn sample(result: &ScenarioResult, scenario: &str) -> Sample {
    let shortened =
        |reason: &str| reason.lines().next().unwrap_or_default().chars().take(REASON_MAX).collect();
    let reason: String = shortened(&result.reason);
    match (result.status, repro::Failure::of(result, scenario)) {
        (Status::Passed, _) => Sample::Passed,
        (Status::Unsupported, _) => Sample::Unsupported(reason),
        (Status::Inconclusive, _) | (_, None) => Sample::Nothing(format!("{}: {reason}", result.status)),
        (status, Some(failure)) => Sample::Failed(Failure {
            fingerprint: failure.fingerprint,
            reason: format!("{status}: {reason}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        report::{StepResult, fixture::result},
        verdict::{Outcome, OutcomeStatus},
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
            (Sample::Failed(a), Sample::Failed(b)) => {
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
    fn what_is_not_the_kernels_tells_nothing() {
        assert_eq!(sample(&result("a", Status::Passed), ""), Sample::Passed);
        assert!(matches!(sample(&result("a", Status::Unsupported), ""), Sample::Unsupported(_)));
        assert!(matches!(sample(&result("a", Status::Inconclusive), ""), Sample::Nothing(_)));
        assert!(matches!(sample(&result("a", Status::LabError), ""), Sample::Nothing(_)));
    }
}
