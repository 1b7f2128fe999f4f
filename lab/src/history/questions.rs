//! What is asked about a history: a scenario's life, what changed, flakes, failures, and since when.

use super::{
    Between, Ending, HistoryError, Life, Lived, Lives, between,
    evidence::{Rate, WINDOW},
};
use crate::words::{nearest, printable};
use schemars::JsonSchema;
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// The life of a scenario on a kernel.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LifeShown {
    /// The scenario's name.
    pub scenario: String,
    /// The kernel's name.
    pub kernel: String,
    /// How often its first tries failed.
    pub rate: Rate,
    /// Its nights, oldest first.
    pub nights: Vec<NightShown>,
}

/// A scenario in a night.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NightShown {
    /// When the night started.
    pub night: String,
    /// How it ended: `passed`, `known bug`, `flaky`, `failed`, `unsupported` or `lab error`.
    pub ending: String,
    /// The tries that failed.
    pub failed_tries: u32,
    /// The fingerprint of its failure.
    pub fingerprint: Option<String>,
    /// The seconds of its last try.
    pub seconds: f32,
    /// The version of the kernel's source.
    pub version: String,
}

/// A scenario whose ending differs from that of the night before.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Changed {
    /// The scenario's name.
    pub scenario: String,
    /// The kernel's name.
    pub kernel: String,
    /// How it ended the last time that its kernel ran; null if it did not run.
    pub before: Option<String>,
    /// How it ended now; null if it did not run.
    pub now: Option<String>,
    /// The fingerprint of the failure of now.
    pub fingerprint: Option<String>,
}

/// A scenario that fails sometimes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FlakeShown {
    /// The scenario's name.
    pub scenario: String,
    /// The kernel's name.
    pub kernel: String,
    /// How often it failed in its last nights.
    pub rate: Rate,
    /// The last night in which it failed.
    pub last: String,
    /// The fingerprints of its failures.
    pub fingerprints: Vec<String>,
}

/// A failure, wherever it was seen.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FailureShown {
    /// Its fingerprint.
    pub fingerprint: String,
    /// The check that failed.
    pub broken: String,
    /// What was found.
    pub finding: String,
    /// The first night in which it was seen.
    pub first: String,
    /// The last one.
    pub last: String,
    /// The number of nights.
    pub nights: usize,
    /// Whether it was seen in the last night of the history.
    pub is_current: bool,
    /// Kernels on which it was seen.
    pub kernels: Vec<String>,
    /// Scenarios in which it was seen.
    pub scenarios: Vec<String>,
}

/// Since when a scenario fails, or failed last.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Since {
    /// The scenario's name.
    pub scenario: String,
    /// The kernel's name.
    pub kernel: String,
    /// The fingerprint of its failure.
    pub fingerprint: Option<String>,
    /// Whether it still failed in its last night.
    pub is_current: bool,
    /// The nights and versions between which it began.
    pub between: Option<Between>,
}

impl Lives {
    /// Returns the lives of a scenario, on one kernel or on all.
    ///
    /// # Errors
    /// It is not in the history.
    pub fn of_scenario(&self, scenario: &str, kernel: Option<&str>) -> Result<Vec<LifeShown>, HistoryError> {
        let lives = self.named(scenario, kernel)?;
        Ok(lives.into_iter().map(|life| self.shown(life)).collect())
    }

    fn named(&self, scenario: &str, kernel: Option<&str>) -> Result<Vec<&Life>, HistoryError> {
        let is_it =
            |life: &&Life| life.scenario == scenario && kernel.is_none_or(|kernel| kernel == life.kernel);
        let lives: Vec<_> = self.lives.iter().filter(is_it).collect();
        if lives.is_empty() {
            let near = nearest(scenario, self.lives.iter().map(|life| life.scenario.as_str()));
            let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            let on = kernel.map(|kernel| format!(" on {kernel}")).unwrap_or_default();
            return Err(HistoryError::Unknown(printable(format!(
                "the history has no scenario `{scenario}`{on}{near}"
            ))));
        }
        Ok(lives)
    }

    fn shown(&self, life: &Life) -> LifeShown {
        let sum = |of: fn(&Lived) -> u32| life.nights.iter().map(of).sum();
        let night = |lived: &Lived| NightShown {
            night: self.time(lived.night),
            ending: lived.ending.name().to_owned(),
            failed_tries: lived.failed,
            fingerprint: self.fingerprint(lived.failure).map(str::to_owned),
            seconds: lived.seconds,
            version: self.version(lived.night, &life.kernel),
        };
        LifeShown {
            scenario: life.scenario.clone(),
            kernel: life.kernel.clone(),
            rate: Rate::of(sum(|lived| lived.failed_first), sum(|lived| lived.first_tries)),
            nights: life.nights.iter().map(night).collect(),
        }
    }

    /// Returns when a night started.
    pub(super) fn time(&self, night: u32) -> String {
        self.nights.get(night as usize).map(|night| night.time()).unwrap_or_default()
    }

    fn version(&self, night: u32, kernel: &str) -> String {
        let night = self.nights.get(night as usize);
        night.and_then(|night| night.kernel(kernel)).map(|kernel| kernel.version.clone()).unwrap_or_default()
    }

    /// Returns what ended differently in a night than the last time that its kernel ran.
    pub fn changes(&self, night: u32) -> Vec<Changed> {
        let ran = |night: u32, kernel: &str| {
            self.nights.get(night as usize).is_some_and(|night| night.kernel(kernel).is_some())
        };
        let mut changes = Vec::new();
        for life in self.lives.iter().filter(|life| ran(night, &life.kernel)) {
            let Some(before) = (0..night).rev().find(|before| ran(*before, &life.kernel)) else { continue };
            let (before, now) = (life.at(before), life.at(night));
            let ending = |lived: Option<&Lived>| lived.map(|lived| lived.ending.name().to_owned());
            let failure = |lived: Option<&Lived>| lived.and_then(|lived| lived.failure);
            if ending(before) != ending(now) || (failure(now).is_some() && failure(before) != failure(now)) {
                changes.push(Changed {
                    scenario: life.scenario.clone(),
                    kernel: life.kernel.clone(),
                    before: ending(before),
                    now: ending(now),
                    fingerprint: self.fingerprint(failure(now)).map(str::to_owned),
                });
            }
        }
        changes
    }

    /// Returns the scenarios that fail sometimes: in their last nights they failed, and passed before and after, or at
    /// another try of the same night. The most frequent come first.
    pub fn flakes(&self) -> Vec<FlakeShown> {
        let mut flakes: Vec<_> = self.lives.iter().filter_map(|life| self.flake(life)).collect();
        let rate = |flake: &FlakeShown| f64::from(flake.rate.failed) / f64::from(flake.rate.tried.max(1));
        flakes.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
        flakes
    }

    fn flake(&self, life: &Life) -> Option<FlakeShown> {
        let nights = &life.nights[life.nights.len().saturating_sub(WINDOW)..];
        // A row of nights that failed is a break, not a flake; a single one among nights that passed is.
        let verdicts: Vec<_> = nights.iter().filter(|lived| lived.first_tries > 0).collect();
        let alone = |at: usize| {
            let passes = |other: Option<usize>| {
                other.and_then(|at| verdicts.get(at)).is_some_and(|lived| lived.ending.holds())
            };
            passes(at.checked_sub(1)) && passes(Some(at + 1))
        };
        let flaky = |at: &usize| match verdicts[*at].ending {
            Ending::Flaky => true,
            Ending::Failed => alone(*at),
            _ => false,
        };
        let seen: Vec<_> = (0..verdicts.len()).filter(flaky).map(|at| verdicts[at]).collect();
        let last = seen.last()?;
        let counted = || {
            verdicts
                .iter()
                .filter(|lived| lived.ending != Ending::Failed)
                .chain(seen.iter().filter(|lived| lived.ending == Ending::Failed))
        };
        let fingerprints: BTreeSet<_> =
            seen.iter().filter_map(|lived| self.fingerprint(lived.failure)).collect();
        Some(FlakeShown {
            scenario: life.scenario.clone(),
            kernel: life.kernel.clone(),
            rate: Rate::of(
                counted().map(|lived| lived.failed_first).sum(),
                counted().map(|lived| lived.first_tries).sum(),
            ),
            last: self.time(last.night),
            fingerprints: fingerprints.into_iter().map(str::to_owned).collect(),
        })
    }

    /// Returns every failure with where it was seen, those of the last nights first.
    pub fn failures(&self) -> Vec<FailureShown> {
        let mut seen: BTreeMap<u32, Vec<(u32, &Life)>> = BTreeMap::new();
        for life in &self.lives {
            for lived in &life.nights {
                if let Some(failure) = lived.failure {
                    seen.entry(failure).or_default().push((lived.night, life));
                }
            }
        }
        let mut shown: Vec<_> =
            seen.iter().filter_map(|(failure, seen)| self.failure(*failure, seen)).collect();
        shown.sort_by(|a, b| (&b.last, &b.first, &a.fingerprint).cmp(&(&a.last, &a.first, &b.fingerprint)));
        shown
    }

    fn failure(&self, failure: u32, seen: &[(u32, &Life)]) -> Option<FailureShown> {
        let (fingerprint, what) = self.failures.get(failure as usize)?;
        let nights: BTreeSet<u32> = seen.iter().map(|(night, _)| *night).collect();
        let names = |name: fn(&Life) -> &String| {
            let names: BTreeSet<_> = seen.iter().map(|(_, life)| name(life)).collect();
            names.into_iter().cloned().collect()
        };
        let (first, last) = (*nights.first()?, *nights.last()?);
        Some(FailureShown {
            fingerprint: fingerprint.clone(),
            broken: what.broken.clone(),
            finding: what.finding.clone(),
            first: self.time(first),
            last: self.time(last),
            nights: nights.len(),
            is_current: Some(last) == self.last(),
            kernels: names(|life| &life.kernel),
            scenarios: names(|life| &life.scenario),
        })
    }

    /// Returns since when a scenario fails, or everything with a fingerprint, on one kernel or on all: the first night
    /// of its last row of nights without a pass.
    ///
    /// # Errors
    /// The scenario or the fingerprint is not in the history.
    pub fn since(&self, what: &str, kernel: Option<&str>) -> Result<Vec<Since>, HistoryError> {
        let failure =
            self.failures.iter().position(|(fingerprint, _)| fingerprint == what).map(|at| at as u32);
        let lives = match failure {
            Some(_) => {
                self.lives.iter().filter(|life| kernel.is_none_or(|kernel| kernel == life.kernel)).collect()
            }
            None => self.named(what, kernel)?,
        };
        Ok(lives.into_iter().filter_map(|life| self.since_of(life, failure)).collect())
    }

    fn since_of(&self, life: &Life, failure: Option<u32>) -> Option<Since> {
        let is_bad = |lived: &Lived| match failure {
            Some(_) => lived.failure == failure,
            None => lived.ending == Ending::Failed,
        };
        let last = life.nights.iter().rposition(is_bad)?;
        let row = life.nights[..=last]
            .iter()
            .rev()
            .take_while(|lived| !lived.ending.holds())
            .filter(|lived| is_bad(lived));
        let first = row.last()?;
        let is_current = life.nights[last..].iter().all(|lived| !lived.ending.holds());
        Some(Since {
            scenario: life.scenario.clone(),
            kernel: life.kernel.clone(),
            fingerprint: self.fingerprint(life.nights[last].failure).map(str::to_owned),
            is_current,
            between: between(self, life, first.night),
        })
    }
}

impl fmt::Display for Since {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_current { "fails" } else { "failed last" };
        write!(out, "{} on {} {state}", self.scenario, self.kernel)?;
        if let Some(fingerprint) = &self.fingerprint {
            write!(out, " [{fingerprint}]")?;
        }
        match &self.between {
            Some(between) => write!(out, ": {between}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "questions_tests.rs"]
pub(super) mod tests;
