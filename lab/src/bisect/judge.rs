//! Runs a scenario on one kernel, as often as the odds require and no more, and returns its [`Verdict`].

use super::{
    odds::{Confidence, Rate, runs_to_measure},
    trial::{Failure, RunOutcome},
};
use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt};

/// A kernel is skipped after this many inconclusive runs.
const INCONCLUSIVE_MAX: u32 = 3;

/// The required confidence of verdicts.
#[derive(Clone, Copy, Debug)]
pub struct Criteria {
    /// The minimum confidence of a good verdict.
    pub confidence: Confidence,
    /// The failure rate on a bad kernel, if it is given instead of measured.
    pub assumed: Option<Rate>,
    /// The maximum number of runs per kernel.
    pub runs_max: u32,
    /// Whether every failure counts, not only those seen at the bad end.
    pub any_failure: bool,
}

/// The verdict on a kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It passed enough times in a row.
    Good {
        /// The number of passes.
        passes: u32,
        /// The probability that a bad kernel passes this often; 1 if no rate was known yet.
        wrong: f64,
    },
    /// It failed.
    Bad {
        /// The number of runs that failed.
        failed: u32,
        /// The number of runs.
        runs: u32,
        /// The distinct failures.
        failures: BTreeSet<Failure>,
    },
    /// It cannot be determined.
    Skipped {
        /// Why.
        reason: String,
    },
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Good { passes, wrong } => {
                let times = if *passes == 1 { "once" } else { &format!("{passes} times in a row") };
                write!(out, "good: passed {times}")?;
                let wrong = super::odds::percent(*wrong);
                write!(out, ", which a bad kernel does with a probability of {wrong} %")
            }
            Verdict::Bad { failed, runs, failures } => {
                let reason = failures.first().map(|failure| failure.reason.as_str()).unwrap_or_default();
                write!(out, "bad: {failed} of {runs} failed: {reason}")
            }
            Verdict::Skipped { reason } => write!(out, "skipped: {reason}"),
        }
    }
}

/// The properties of the failure, measured on the bad end.
#[derive(Clone, Debug)]
pub struct Known {
    /// Its rate.
    pub rate: Rate,
    /// The number of consecutive passes that make a good verdict.
    pub passes: u32,
    fingerprints: BTreeSet<String>,
}

impl Known {
    /// Derives it from the verdict on the bad end.
    pub fn of(sureness: &Criteria, failed: u32, runs: u32, failures: &BTreeSet<Failure>) -> Result<Known> {
        let rate = sureness.assumed.unwrap_or(Rate::Measured { failed, runs });
        let fingerprints = failures.iter().map(|failure| failure.fingerprint.clone()).collect();
        match rate.passes_needed(sureness.confidence).filter(|passes| *passes <= sureness.runs_max) {
            Some(passes) => Ok(Known { rate, passes, fingerprints }),
            None => bail!(
                "{rate}: a confidence of {} needs more than {} passes per kernel; lower --confidence or raise \
                 --runs",
                sureness.confidence.probability(),
                sureness.runs_max
            ),
        }
    }
}

/// Runs the scenario on one kernel the given number of times; if the flag is set, only until a run does
/// not pass.
pub(super) type Runs<'a> = dyn FnMut(u32, bool) -> Result<Vec<RunOutcome>> + 'a;

#[derive(Default)]
struct Tally {
    passed: u32,
    failed: u32,
    nothings: u32,
    failures: BTreeSet<Failure>,
    untestable: Option<String>,
}

impl Tally {
    fn add(&mut self, samples: Vec<RunOutcome>) -> Result<()> {
        if samples.is_empty() {
            bail!("a scenario ran without leaving a result");
        }
        for sample in samples {
            match sample {
                RunOutcome::Passed => self.passed += 1,
                RunOutcome::Failed(failure) => {
                    self.failed += 1;
                    self.failures.insert(failure);
                }
                RunOutcome::Unsupported(reason) => self.untestable = Some(format!("unsupported: {reason}")),
                RunOutcome::Nothing(reason) => {
                    self.nothings += 1;
                    if self.nothings >= INCONCLUSIVE_MAX {
                        self.untestable = Some(reason);
                    }
                }
            }
        }
        Ok(())
    }

    fn bad(self) -> Verdict {
        Verdict::Bad { failed: self.failed, runs: self.passed + self.failed, failures: self.failures }
    }
}

/// Returns the verdict on the bad end, with its failure rate.
pub(super) fn measure(sureness: &Criteria, runs: &mut Runs<'_>) -> Result<Verdict> {
    if sureness.assumed.is_some() {
        // With a given rate, a single failure of any kind is enough.
        let any = Criteria { any_failure: true, ..*sureness };
        return judge(&any, &Known::of(&any, 0, 0, &BTreeSet::new())?, runs);
    }
    let mut tally = Tally::default();
    loop {
        let more = runs_to_measure(tally.failed, tally.passed + tally.failed, sureness.runs_max);
        if more == 0 {
            break;
        }
        tally.add(runs(more, false)?)?;
        if let Some(reason) = tally.untestable {
            return Ok(Verdict::Skipped { reason });
        }
    }
    Ok(if tally.failed == 0 { Verdict::Good { passes: tally.passed, wrong: 1.0 } } else { tally.bad() })
}

/// Returns the verdict on any other kernel.
pub(super) fn judge(sureness: &Criteria, known: &Known, runs: &mut Runs<'_>) -> Result<Verdict> {
    let mut tally = Tally::default();
    while tally.passed < known.passes {
        tally.add(runs(known.passes - tally.passed, true)?)?;
        let counts =
            |failure: &Failure| sureness.any_failure || known.fingerprints.contains(&failure.fingerprint);
        if tally.failures.iter().any(counts) {
            return Ok(tally.bad());
        }
        if let Some(other) = tally.failures.first() {
            return Ok(Verdict::Skipped { reason: format!("it fails differently: {}", other.reason) });
        }
        if let Some(reason) = tally.untestable {
            return Ok(Verdict::Skipped { reason });
        }
    }
    Ok(Verdict::Good { passes: tally.passed, wrong: known.rate.miss(tally.passed) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(fingerprint: &str) -> RunOutcome {
        RunOutcome::Failed(Failure {
            fingerprint: fingerprint.into(),
            reason: format!("{fingerprint} happened"),
        })
    }

    const SURE: Criteria =
        Criteria { confidence: Confidence::NINETY_NINE, assumed: None, runs_max: 100, any_failure: false };

    /// Returns scripted runs, one letter each: `.` passes, `?` is inconclusive, `u` is unsupported, any
    /// other letter is a failure of that name. With `until_fail`, runs stop after the first non-pass.
    fn scripted(script: &str) -> impl FnMut(u32, bool) -> Result<Vec<RunOutcome>> {
        let mut letters: Vec<char> = script.chars().rev().collect();
        move |runs, until_fail| {
            let mut samples = Vec::new();
            for _ in 0..runs {
                let letter = letters.pop().expect("more runs than the test foresees");
                samples.push(match letter {
                    '.' => RunOutcome::Passed,
                    '?' => RunOutcome::Nothing("lost".into()),
                    'u' => RunOutcome::Unsupported("no such thing".into()),
                    letter => failure(&letter.to_string()),
                });
                if until_fail && letter != '.' {
                    break;
                }
            }
            Ok(samples)
        }
    }

    fn known(script: &str) -> Known {
        match measure(&SURE, &mut scripted(script)).unwrap() {
            Verdict::Bad { failed, runs, failures } => Known::of(&SURE, failed, runs, &failures).unwrap(),
            verdict => panic!("{verdict}"),
        }
    }

    #[test]
    fn the_bad_end_is_measured_until_it_is_known() {
        assert_eq!((known("xxxx").rate, known("xxxx").passes), (Rate::Measured { failed: 4, runs: 4 }, 3));
        let flaky = known("x.x.xxx.x.x.x.x.");
        assert_eq!(flaky.rate, Rate::Measured { failed: 9, runs: 16 });
        assert_eq!(flaky.passes, 7);
        let never = ".".repeat(100);
        let verdict = measure(&SURE, &mut scripted(&never)).unwrap();
        assert_eq!(verdict, Verdict::Good { passes: 100, wrong: 1.0 });
        let lost = measure(&SURE, &mut scripted("x???")).unwrap();
        assert_eq!(lost, Verdict::Skipped { reason: "lost".into() });
    }

    fn check(script: &str, expect: &str) {
        let verdict = judge(&SURE, &known("xx.y...x..xxxx.."), &mut scripted(script)).unwrap();
        assert!(verdict.to_string().starts_with(expect), "{script}: {verdict}");
    }

    #[test]
    fn good_takes_all_passes_and_bad_one_failure_of_the_known_kind() {
        check(".........", "good: passed 9 times in a row, which a bad kernel does with a probability of 0.");
        check("....x", "bad: 1 of 5 failed: x happened");
        check("y", "bad: 1 of 1 failed: y happened");
        check("..z", "skipped: it fails differently: z happened");
        check("u", "skipped: unsupported: no such thing");
    }

    #[test]
    fn a_run_that_tells_nothing_is_run_again_and_at_last_skipped() {
        check("..?....?...", "good: passed 9 times");
        check("........?.", "good: passed 9 times");
        check("..?..?.?", "skipped: lost");
    }

    #[test]
    fn any_failure_counts_where_that_is_asked_for() {
        let sureness = Criteria { any_failure: true, ..SURE };
        let verdict = judge(&sureness, &known("xxxx"), &mut scripted("z")).unwrap();
        assert!(matches!(verdict, Verdict::Bad { .. }), "{verdict}");
    }

    #[test]
    fn with_a_given_rate_one_failure_is_enough_at_the_bad_end() {
        let sureness = Criteria { assumed: Some(Rate::Assumed(0.5)), ..SURE };
        let verdict = measure(&sureness, &mut scripted("...x")).unwrap();
        assert!(matches!(verdict, Verdict::Bad { failed: 1, runs: 4, .. }), "{verdict}");
        let verdict = measure(&sureness, &mut scripted(".......")).unwrap();
        assert!(matches!(verdict, Verdict::Good { passes: 7, .. }), "{verdict}");
    }

    #[test]
    fn more_runs_than_allowed_are_refused_in_time() {
        let sureness = Criteria { runs_max: 20, ..SURE };
        let error = Known::of(&sureness, 1, 20, &BTreeSet::new()).unwrap_err().to_string();
        assert!(error.starts_with("1 of 20 runs fail: a confidence of 0.99"), "{error}");
    }
}
