//! A failure × kernels in order → the first of them that has it.
//!
//! First the ends are checked: that the bad one fails, in which way and how often, and that the good one
//! does not. What lies between is then halved again and again, by the lab for kernels of the matrix and
//! versions of a package, by `git bisect run` for commits. A verdict is written down the moment it is
//! there, so that a bisection which was cut off goes on where it stopped.

mod candidates;
mod conclusion;
mod git;
mod judge;
mod log;
pub mod odds;
mod search;
mod trial;

pub use candidates::{Builder, Candidate, Commit, Row, are_named};
pub use conclusion::Conclusion;
pub use git::Commits;
pub use judge::{Known, Sureness, Verdict};
pub use log::{Log, content_of};
pub use search::{Answer, Left};
pub use trial::{Failure, ReproTrial, Sample, ScenarioTrial, Trial};

use crate::host::interrupt;
use anyhow::{Context, Result};
use git::Terms;
use judge::{judge, measure};
use std::path::Path;

/// What was asked for cannot be bisected; the person who asked can change that.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// Tries one candidate: measures how it fails where nothing is known of that yet, else judges by it.
pub type Try<'a> = dyn FnMut(&Candidate, Option<&Known>) -> Result<Verdict> + 'a;

/// A bisection in progress.
pub struct Bisection<'a> {
    /// How sure verdicts are to be.
    pub sureness: Sureness,
    /// Verdicts that are there already, and where new ones go.
    pub log: Log,
    /// Tries a candidate.
    pub try_one: Box<Try<'a>>,
    /// Told what happens, a line each time.
    pub tell: Box<dyn FnMut(String) + 'a>,
    /// All verdicts, in the order of asking.
    pub judged: Vec<(Candidate, Verdict)>,
}

impl Bisection<'_> {
    /// Searches candidates that are in order.
    pub fn over_row(&mut self, row: &Row) -> Result<Conclusion> {
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

    /// Has git search commits. What it says goes to the file `said`, its own log to `replay`.
    pub fn over_commits(
        &mut self,
        commits: &Commits,
        (good, bad): (&Commit, &Commit),
        (said, replay): (&Path, &Path),
    ) -> Result<Conclusion> {
        if good.id == bad.id {
            return Err(Refused("good and bad are the same commit".into()).into());
        }
        let [good_end, bad_end] = [good, bad].map(|commit| Candidate::Commit(commit.clone()));
        let known = self.check_ends(&good_end, &bad_end)?;
        let breaks = !commits.is_ancestor(bad, good)?;
        let (ends, terms) = match breaks {
            true => ((good, bad), Terms { early: "good", late: "bad" }),
            false => ((bad, good), Terms { early: "broken", late: "mended" }),
        };
        let first = commits.bisect(ends, terms, said, |commit, left| {
            let verdict = self.verdict(&Candidate::Commit(commit.clone()), Some(&known), Some(left))?;
            Ok(side(&verdict, breaks))
        })?;
        let log = commits.log()?;
        std::fs::write(replay, log).with_context(|| format!("cannot write `{}`", replay.display()))?;
        let first = first.into_iter().map(Candidate::Commit).collect();
        Ok(self.conclude(breaks, first, None, &known))
    }

    /// Makes sure that one end is good and the other bad, and learns how the bad one fails.
    fn check_ends(&mut self, good: &Candidate, bad: &Candidate) -> Result<Known> {
        let known = self.ends(good, bad);
        if known.as_ref().is_err_and(|error| error.is::<Refused>()) {
            // There is nothing to go on with, and whatever was in the way may be gone the next time.
            self.log.finish()?;
        }
        known
    }

    fn ends(&mut self, good: &Candidate, bad: &Candidate) -> Result<Known> {
        let refused = |text: String| Err(Refused(text).into());
        let known = match self.verdict(bad, None, None)? {
            Verdict::Bad { failed, runs, failures } => Known::of(&self.sureness, failed, runs, &failures)
                .map_err(|error| Refused(error.to_string()))?,
            Verdict::Good { passes, .. } => {
                return refused(format!("`{}` is not bad: it passed {passes} times in a row", bad.label()));
            }
            Verdict::Skipped { reason } => {
                return refused(format!("`{}`, the bad end, cannot be tested: {reason}", bad.label()));
            }
        };
        let (rate, passes) = (known.rate, known.passes);
        (self.tell)(format!("{rate}; a good verdict takes {passes} in a row that pass"));
        match self.verdict(good, Some(&known), None)? {
            Verdict::Good { .. } => Ok(known),
            Verdict::Bad { failures, .. } => {
                let reason = failures.first().map(|failure| failure.reason.clone()).unwrap_or_default();
                refused(format!("`{}` is not good: it fails, too: {reason}", good.label()))
            }
            Verdict::Skipped { reason } => {
                refused(format!("`{}`, the good end, cannot be tested: {reason}", good.label()))
            }
        }
    }

    fn verdict(&mut self, one: &Candidate, known: Option<&Known>, left: Option<Left>) -> Result<Verdict> {
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
                format!("{} left, about {} to be tried", left.candidates, left.tries.max(1))
            }
        };
        let verdict = match self.log.get(logged) {
            Some(verdict) => {
                let verdict = verdict.clone();
                (self.tell)(format!("{one} ({role}): {verdict}, as an earlier bisection found"));
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

/// Builds a candidate and runs the trial on it as often as it takes. What does not build is skipped;
/// what any build would fail for is an error.
pub fn try_on(
    builder: &Builder<'_>,
    candidate: &Candidate,
    trial: &mut dyn Trial,
    sureness: &Sureness,
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

/// Troubles that are no kernel's.
const NOT_THE_KERNELS: [&str; 3] = ["No space left on device", "check the network", "cannot download"];

fn does_not_build(error: anyhow::Error) -> Result<Verdict> {
    interrupt::check()?;
    let said = format!("{error:#}");
    if NOT_THE_KERNELS.iter().any(|trouble| said.contains(trouble)) {
        return Err(error);
    }
    // The first lines name the kernel and what the compiler complained of.
    let said: Vec<&str> = said.lines().map(str::trim).take(3).collect();
    Ok(Verdict::Skipped { reason: format!("it cannot be built: {}", said.join("; ")) })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
