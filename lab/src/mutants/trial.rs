//! Runs scenarios on a kernel with a defect until one notices it.

use super::list::Mutant;
use crate::{
    context::Lab,
    coverage::Affected,
    explore::{Hunt, Search},
    host::{interrupt, outage::is_outage},
    kernel::{self, Kernel, WorkingCopy},
    results::{ScenarioResult, Status},
    run::{Options, Prepared, Reporter, prepare, run, select::Selection},
    scenario::{Scenario, ScenarioFile},
};
use anyhow::{Context, Result, ensure};
use fs_err as fs;
use std::{collections::BTreeSet, path::PathBuf, time::Instant};

/// What became of a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A scenario fails with it, twice, and passes without it.
    Noticed {
        /// The scenario.
        scenario: String,
        /// Its status and the reason.
        reason: String,
    },
    /// Every scenario that passes without it passes with it.
    Unnoticed,
    /// The source does not have its place once.
    Stale,
    /// The kernel does not build with it.
    NotBuilt {
        /// The compiler's first complaint.
        reason: String,
    },
}

/// A kernel into which one mutant after the other is put.
pub struct Trials<'a> {
    lab: &'a Lab,
    copy: WorkingCopy,
    /// Without a defect.
    base: Kernel,
    prepared: Prepared,
    options: Options,
    scenarios: Vec<(ScenarioFile, Scenario)>,
    /// Has a directory of results for each mutant.
    results: PathBuf,
    /// Scenarios that passed without a defect after they had failed with one.
    sound: BTreeSet<String>,
}

impl<'a> Trials<'a> {
    /// Builds the kernel `name` and a copy of it to be changed. Results go below `results`.
    pub fn new(
        lab: &'a Lab,
        name: &str,
        scenarios: Vec<(ScenarioFile, Scenario)>,
        (results, jobs): (PathBuf, usize),
    ) -> Result<Trials<'a>> {
        let selection = Selection::all(vec![name.to_owned()], scenarios.clone());
        let options = Options { jobs, fail_fast: true, ..Options::new(&lab.root, selection, &results) };
        let prepared = prepare(lab, &options)?;
        let base = prepared.kernels.first().context("there is no kernel")?.clone();
        let copy = WorkingCopy::of(lab, &base)?;
        // So that each mutant costs the compilation of its file only.
        kernel::build(lab, name, Some(copy.directory()))?;
        Ok(Trials { lab, copy, base, prepared, options, scenarios, results, sound: BTreeSet::new() })
    }

    /// Tries one mutant with those of the scenarios that `affected` names.
    pub fn try_one(&mut self, mutant: &Mutant, affected: &Affected) -> Result<Outcome> {
        let scenarios: Vec<_> =
            self.scenarios.iter().filter(|(file, _)| affected.names(&file.name)).cloned().collect();
        if scenarios.is_empty() {
            return Ok(Outcome::Unnoticed);
        }
        self.on_kernel_with(mutant, |trials, kernel| trials.noticed(mutant, &scenarios, kernel))
    }

    /// Explores a kernel with one mutant until something is found or the time is over. What is found must pass
    /// without the defect.
    pub fn explore(&mut self, mutant: &Mutant, search: Search) -> Result<Outcome> {
        self.on_kernel_with(mutant, |trials, kernel| {
            let place = trials.place_of(mutant)?;
            fs::create_dir_all(&place)?;
            trials.prepared.miss_no_patches()?;
            let end = search.time.map(|time| Instant::now() + time);
            // If what was found fails without the defect, too, other sequences are tried.
            for seed in search.seed.. {
                trials.prepared.replace_kernels(kernel.clone(), &trials.lab.progress);
                let time = end.map(|end| end.saturating_duration_since(Instant::now()));
                let search = Search { seed, time, first: true, ..search };
                let (findings, _) = Hunt::new(&trials.prepared, &place, None, search, |_| {})?.run()?;
                interrupt::check()?;
                if findings.is_empty() {
                    break;
                }
                for finding in findings {
                    let scenario = Scenario::load(&finding.file.path)?;
                    let base = trials.base.clone();
                    let ran = trials.run(&base, vec![(finding.file.clone(), scenario)])?;
                    if ran.iter().all(|result| result.status.is_good()) {
                        return Ok(Outcome::Noticed { scenario: finding.file.name, reason: finding.reason });
                    }
                }
            }
            Ok(Outcome::Unnoticed)
        })
    }

    /// Builds the kernel with a mutant, and does something with it.
    fn on_kernel_with(
        &mut self,
        mutant: &Mutant,
        then: impl FnOnce(&mut Self, &Kernel) -> Result<Outcome>,
    ) -> Result<Outcome> {
        let text = self.copy.original(&mutant.file)?;
        let Some(text) = mutant.put_into(&text) else { return Ok(Outcome::Stale) };
        self.copy.change(&mutant.file, &text)?;
        let built = kernel::build(self.lab, &self.base.name, Some(self.copy.directory()));
        let kernel = match built {
            Ok(kernel) => kernel,
            Err(error) if is_outage(&error) || interrupt::check().is_err() => return Err(error),
            Err(error) => {
                let reason = format!("{error:#}").lines().nth(1).unwrap_or_default().trim().to_owned();
                return Ok(Outcome::NotBuilt { reason });
            }
        };
        let outcome = then(self, &kernel);
        self.copy.restore()?;
        outcome
    }

    /// Returns the directory of the results of a mutant, without earlier ones.
    fn place_of(&mut self, mutant: &Mutant) -> Result<PathBuf> {
        self.options.results = self.results.join(&mutant.name);
        if self.options.results.exists() {
            fs::remove_dir_all(&self.options.results)?;
        }
        Ok(self.options.results.clone())
    }

    /// Runs the scenario that should notice it, then those of the same area, then all others, cheap ones first.
    fn noticed(
        &mut self,
        mutant: &Mutant,
        scenarios: &[(ScenarioFile, Scenario)],
        kernel: &Kernel,
    ) -> Result<Outcome> {
        self.place_of(mutant)?;
        let expected = mutant.scenario.as_deref().unwrap_or_default();
        let area = expected.split('/').next().unwrap_or_default();
        let turn = |file: &ScenarioFile, scenario: &Scenario| match file.name.as_str() {
            name if name == expected => 0,
            _ if !scenario.is_restored() || scenario.exclusive => 3,
            name if name.split('/').next() == Some(area) => 1,
            _ => 2,
        };
        for now in 0..=3 {
            let scenarios = scenarios.iter().filter(|(file, scenario)| turn(file, scenario) == now);
            let mut left: Vec<_> = scenarios.cloned().collect();
            while !left.is_empty() {
                let ran = self.run(kernel, left.clone())?;
                left.retain(|(file, _)| ran.iter().all(|result| result.name != file.name));
                for failed in ran.iter().filter(|result| !result.status.is_good()) {
                    if self.is_due_to_defect(failed, kernel)? {
                        let reason = failed.reason.lines().next().unwrap_or_default();
                        let reason = format!("{}: {reason}", failed.status);
                        return Ok(Outcome::Noticed { scenario: failed.name.clone(), reason });
                    }
                }
            }
        }
        Ok(Outcome::Unnoticed)
    }

    /// Returns whether a scenario that failed fails again, and passes without the defect.
    fn is_due_to_defect(&mut self, failed: &ScenarioResult, kernel: &Kernel) -> Result<bool> {
        ensure!(
            failed.status != Status::LabError,
            "`{}` says nothing of the kernel: {}",
            failed.name,
            failed.reason
        );
        let same = self.scenarios.iter().filter(|(file, _)| file.name == failed.name);
        let same: Vec<_> = same.cloned().collect();
        let passes = |ran: &[ScenarioResult]| ran.iter().all(|result| result.status.is_good());
        if passes(&self.run(kernel, same.clone())?) {
            return Ok(false);
        }
        if !self.sound.contains(&failed.name) {
            let base = self.base.clone();
            if !passes(&self.run(&base, same)?) {
                return Ok(false);
            }
            self.sound.insert(failed.name.clone());
        }
        Ok(true)
    }

    /// Runs scenarios until one fails. Keeps the files of failures.
    fn run(
        &mut self,
        kernel: &Kernel,
        scenarios: Vec<(ScenarioFile, Scenario)>,
    ) -> Result<Vec<ScenarioResult>> {
        self.options.selection = Selection::all(vec![kernel.name.clone()], scenarios);
        self.prepared.replace_kernels(kernel.clone(), &self.lab.progress);
        let mut reporter = Reporter::new(&self.lab.progress);
        let (ran, directory) = run(&self.prepared, &self.options, |event| reporter.draw(&event))?;
        for passed in ran.scenarios.iter().filter(|result| result.status == Status::Passed) {
            fs::remove_dir_all(directory.join(&passed.directory))?;
        }
        Ok(ran.scenarios)
    }
}
