//! Finds the first kernel with a failure among kernels in order.
//!
//! First checks the ends: that the bad one fails, in which way and how often, and that the good one
//! passes. Then halves the range between them, for kernels of the matrix and versions of a package by
//! itself, for commits with `git bisect run`. Each verdict is stored at once, so that an interrupted
//! bisection resumes where it stopped.

mod candidates;
mod conclusion;
mod git;
mod judge;
mod log;
pub mod odds;
mod search;
mod trial;

pub use candidates::{Builder, Candidate, CandidateRange, Commit, are_named};
pub use conclusion::Conclusion;
pub use git::Commits;
pub use judge::{Criteria, Known, Verdict};
pub use log::{Log, content_of};
pub use search::{Answer, Remaining};
pub use trial::{Failure, ReproTrial, RunOutcome, ScenarioTrial, Trial};

use crate::host::{interrupt, outage::is_outage, whole::write_whole};
use anyhow::Result;
use git::Terms;
use judge::{judge, measure};
use std::path::Path;

/// The request cannot be bisected, an error that the user can correct.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct BisectError(pub String);

/// Tries one candidate: measures its failures if nothing is known of them yet, else judges by them.
pub type Try<'a> = dyn FnMut(&Candidate, Option<&Known>) -> Result<Verdict> + 'a;

/// A bisection in progress.
pub struct Bisection<'a> {
    /// The required confidence of verdicts.
    pub sureness: Criteria,
    /// The verdicts so far, stored as they are made.
    pub log: Log,
    /// Tries a candidate.
    pub try_one: Box<Try<'a>>,
    /// Reports progress, one line per call.
    pub tell: Box<dyn FnMut(String) + 'a>,
    /// All verdicts, in the order in which they were needed.
    pub judged: Vec<(Candidate, Verdict)>,
}

impl Bisection<'_> {
    /// Searches an ordered row of candidates.
    pub fn over_row(&mut self, row: &CandidateRange) -> Result<Conclusion> {
        let last = row.candidates.len() - 1;
        let (good, bad) = if row.breaks { (0, last) } else { (last, 0) };
        let known = self.check_ends(&row.candidates[good], &row.candidates[bad])?;
        let found = search::search(row.candidates.len(), |place, left| {
            let verdict = self.verdict(&row.candidates[place], Some(&known), Some(left))?;
            Ok(side(&verdict, row.breaks))
        })?;
        let first = row.candidates[found.early + 1..=found.late].to_vec();
        let before = Some(row.candidates[found.early].clone());
        Ok(self.conclude(row.breaks, first, before, &known))
    }

    /// Searches commits with git. Its output goes to the file `said`, its bisection log to `replay`.
    pub fn over_commits(
        &mut self,
        commits: &Commits,
        (good, bad): (&Commit, &Commit),
        (said, replay): (&Path, &Path),
    ) -> Result<Conclusion> {
        if good.id == bad.id {
            return Err(BisectError("good and bad are the same commit".into()).into());
        }
        let [good_end, bad_end] = [good, bad].map(|commit| Candidate::Commit(commit.clone()));
        let known = self.check_ends(&good_end, &bad_end)?;
        let breaks = !commits.is_ancestor(bad, good)?;
        let (ends, terms) = match breaks {
            true => ((good, bad), Terms { early: "good", late: "bad" }),
            false => ((bad, good), Terms { early: "broken", late: "fixed" }),
        };
        let first = commits.bisect(ends, terms, said, |commit, left| {
            let verdict = self.verdict(&Candidate::Commit(commit.clone()), Some(&known), Some(left))?;
            Ok(side(&verdict, breaks))
        })?;
        let log = commits.log()?;
        write_whole(replay, log)?;
        let first = first.into_iter().map(Candidate::Commit).collect();
        Ok(self.conclude(breaks, first, None, &known))
    }

    /// Checks that one end is good and the other bad, and measures how the bad one fails.
    fn check_ends(&mut self, good: &Candidate, bad: &Candidate) -> Result<Known> {
        let known = self.ends(good, bad);
        if known.as_ref().is_err_and(|error| error.is::<BisectError>()) {
            // There is nothing to resume, and the cause may be fixed the next time.
            self.log.finish()?;
        }
        known
    }

    fn ends(&mut self, good: &Candidate, bad: &Candidate) -> Result<Known> {
        let refused = |text: String| Err(BisectError(text).into());
        let known = match self.verdict(bad, None, None)? {
            Verdict::Bad { failed, runs, failures } => Known::of(&self.sureness, failed, runs, &failures)
                .map_err(|error| BisectError(error.to_string()))?,
            Verdict::Good { passes, .. } => {
                return refused(format!("`{}` is not bad: it passed {passes} times in a row", bad.label()));
            }
            Verdict::Skipped { reason } => {
                return refused(format!("cannot test `{}`, the bad end: {reason}", bad.label()));
            }
        };
        let (rate, passes) = (known.rate, known.passes);
        (self.tell)(format!("{rate}; a good verdict takes {passes} passes in a row"));
        match self.verdict(good, Some(&known), None)? {
            Verdict::Good { .. } => Ok(known),
            Verdict::Bad { failures, .. } => {
                let reason = failures.first().map(|failure| failure.reason.clone()).unwrap_or_default();
                refused(format!("`{}` is not good: it also fails: {reason}", good.label()))
            }
            Verdict::Skipped { reason } => {
                refused(format!("cannot test `{}`, the good end: {reason}", good.label()))
            }
        }
    }

    fn verdict(
        &mut self,
        one: &Candidate,
        known: Option<&Known>,
        left: Option<Remaining>,
    ) -> Result<Verdict> {
        interrupt::check()?;
        let logged = match one {
            Candidate::Commit(commit) => commit.id.as_str(),
            _ => one.label(),
        };
        if let Some((_, verdict)) = self.judged.iter().find(|(judged, _)| judged == one) {
            return Ok(verdict.clone());
        }
        let role = match (known, left) {
            (None, _) => "the bad end".to_owned(),
            (_, None) => "the good end".to_owned(),
            (_, Some(left)) => {
                format!("{} left, about {} to test", left.candidates, left.tries.max(1))
            }
        };
        let verdict = match self.log.get(logged) {
            Some(verdict) => {
                let verdict = verdict.clone();
                (self.tell)(format!("{one} ({role}): {verdict}, from an earlier bisection"));
                verdict
            }
            None => {
                (self.tell)(format!("testing {one} ({role})"));
                let verdict = (self.try_one)(one, known)?;
                self.log.add(logged, &verdict)?;
                (self.tell)(format!("{}: {verdict}", one.label()));
                verdict
            }
        };
        self.judged.push((one.clone(), verdict.clone()));
        Ok(verdict)
    }

    fn conclude(
        &self,
        breaks: bool,
        first: Vec<Candidate>,
        before: Option<Candidate>,
        known: &Known,
    ) -> Conclusion {
        Conclusion::of(&self.judged, breaks, first, before, known.rate)
    }
}

fn side(verdict: &Verdict, breaks: bool) -> Answer {
    match (verdict, breaks) {
        (Verdict::Skipped { .. }, _) => Answer::Skip,
        (Verdict::Good { .. }, true) | (Verdict::Bad { .. }, false) => Answer::Early,
        (Verdict::Bad { .. }, true) | (Verdict::Good { .. }, false) => Answer::Late,
    }
}

/// Builds a candidate and runs the trial on it as often as necessary. A candidate that does not build is
/// skipped; a cause that would make any build fail is an error.
pub fn try_on(
    builder: &Builder<'_>,
    candidate: &Candidate,
    trial: &mut dyn Trial,
    sureness: &Criteria,
    known: Option<&Known>,
) -> Result<Verdict> {
    let kernel = match builder.build(candidate) {
        Ok(kernel) => kernel,
        Err(error) => return does_not_build(error),
    };
    let mut runs = |count, until_fail| trial.run(&kernel, candidate.label(), count, until_fail);
    match known {
        None => measure(sureness, &mut runs),
        Some(known) => judge(sureness, known, &mut runs),
    }
}

fn does_not_build(error: anyhow::Error) -> Result<Verdict> {
    interrupt::check()?;
    if is_outage(&error) {
        return Err(error);
    }
    let said = format!("{error:#}");
    // The first lines name the kernel and the compiler's first error.
    let said: Vec<&str> = said.lines().map(str::trim).take(3).collect();
    Ok(Verdict::Skipped { reason: format!("build failed: {}", said.join("; ")) })
}

#[cfg(test)]
mod tests;
