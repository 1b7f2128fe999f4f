//! Computes how sure a verdict is from the number of runs that passed and failed.
//!
//! A kernel that fails is bad: a good kernel is assumed never to fail in this way. A kernel that only
//! passed may still be bad if the scenario fails only sometimes. Its failure rate on a bad kernel is
//! measured at the bad end, or given. A measured rate is uncertain: `p` has the distribution
//! Beta(a, b) with a = failed + ½ and b = passed + ½ (Jeffreys' prior), and `n` passes in a row have the
//! probability E[(1 - p)^n], the product of (b + i) / (a + b + i) for i below `n`. This holds whatever
//! rule stopped the measurement, since the likelihood does not depend on it.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// This many failures determine the rate well enough.
const FAILURES_ENOUGH: u32 = 8;

/// If this many runs all fail, the scenario is taken to fail nearly always.
pub const RUNS_AT_FIRST: u32 = 4;

/// The maximum number of consecutive passes for a verdict.
const PASSES_MAX: u32 = 1_000_000;

/// The failure rate of the scenario on a bad kernel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// Measured at the bad end.
    Measured {
        /// Runs that failed.
        failed: u32,
        /// All runs that passed or failed.
        runs: u32,
    },
    /// Given by the user: above 0 and at most 1.
    Assumed(f64),
}

impl Rate {
    /// Returns the probability that a bad kernel passes this many times in a row.
    pub fn miss(&self, passes: u32) -> f64 {
        self.misses().nth(passes as usize).unwrap_or(0.0)
    }

    /// Returns the number of consecutive passes for a good verdict, so that a bad kernel is missed with a
    /// probability of at most 1 - `confidence`. `None` if there is no such number below a million.
    pub fn passes_needed(&self, confidence: Confidence) -> Option<u32> {
        let wrong_at_most = 1.0 - confidence.0;
        let enough = self.misses().take(PASSES_MAX as usize).position(|miss| miss <= wrong_at_most + 1e-12);
        // A verdict takes at least one run, whatever the odds.
        enough.and_then(|passes| u32::try_from(passes).ok()).map(|passes| passes.max(1))
    }

    /// Returns the probabilities that a bad kernel passes 0, 1, 2… times in a row.
    fn misses(&self) -> impl Iterator<Item = f64> {
        let rate = *self;
        let next = move |(passes, miss): (u32, f64)| {
            let again = match rate {
                Rate::Assumed(rate) => 1.0 - rate,
                Rate::Measured { failed, runs } => {
                    let a = f64::from(failed) + 0.5;
                    let b = f64::from(runs.saturating_sub(failed)) + 0.5 + f64::from(passes);
                    b / (a + b)
                }
            };
            Some((passes.checked_add(1)?, miss * again))
        };
        std::iter::successors(Some((0, 1.0)), move |last| next(*last)).map(|(_, miss)| miss)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rate::Measured { failed, runs } => write!(out, "{failed} of {runs} runs fail"),
            Rate::Assumed(rate) => write!(out, "{} % of runs fail (assumed)", percent(*rate)),
        }
    }
}

/// Returns how many more runs are needed to measure the rate, after `failed` of `runs` failed; 0 if none
/// are. The number of runs doubles, so that a rare failure takes few rounds.
pub fn runs_to_measure(failed: u32, runs: u32, runs_max: u32) -> u32 {
    let enough = failed >= FAILURES_ENOUGH || (failed == runs && runs >= RUNS_AT_FIRST);
    if enough { 0 } else { runs.max(RUNS_AT_FIRST).min(runs_max.saturating_sub(runs)) }
}

/// The required confidence of a verdict, above 0 and below 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Confidence(f64);

impl Confidence {
    /// The default.
    pub const NINETY_NINE: Confidence = Confidence(0.99);

    /// The probability itself.
    pub fn probability(self) -> f64 {
        self.0
    }
}

impl FromStr for Confidence {
    type Err = String;

    fn from_str(text: &str) -> Result<Confidence, String> {
        let number = probability(text).filter(|number| *number < 1.0);
        let error =
            || format!("`{text}` is not a confidence, expected a number above 0 and below 1, as 0.99");
        number.map(Confidence).ok_or_else(error)
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        let error =
            || format!("`{text}` is not a failure rate, expected a number above 0 and up to 1, as 0.2");
        probability(text).map(Rate::Assumed).ok_or_else(error)
    }
}

fn probability(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number| *number > 0.0 && *number <= 1.0)
}

/// Returns an upper bound of the probability that any of several verdicts is wrong: the sum of theirs.
pub fn any_wrong(wrong: impl IntoIterator<Item = f64>) -> f64 {
    wrong.into_iter().sum::<f64>().min(1.0)
}

/// Formats a probability as a percentage, with its significant digits and never rounded to certainty.
pub fn percent(probability: f64) -> String {
    let percent = 100.0 * probability;
    match percent {
        0.0 => "0".to_owned(),
        _ if percent < 0.01 => "under 0.01".to_owned(),
        _ if percent < 1.0 => format!("{percent:.2}"),
        _ => format!("{percent:.1}").trim_end_matches(".0").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn needed(rate: Rate, confidence: &str) -> Option<u32> {
        rate.passes_needed(confidence.parse().unwrap())
    }

    #[test]
    fn an_assumed_rate_takes_as_many_passes_as_the_logarithm_says() {
        let check = |rate: &str, confidence, expect| {
            assert_eq!(needed(rate.parse().unwrap(), confidence), Some(expect), "{rate} {confidence}");
        };
        // ln(0.01) / ln(1 - p), rounded up.
        check("1", "0.99", 1);
        check("0.9", "0.99", 2);
        check("0.5", "0.99", 7);
        check("0.1", "0.99", 44);
        check("0.01", "0.99", 459);
        check("0.5", "0.5", 1);
        check("0.9", "0.1", 1);
        assert_eq!(needed(Rate::Assumed(1e-9), "0.99"), None);
    }

    #[test]
    fn a_measured_rate_counts_for_what_its_runs_tell() {
        let check = |failed, runs, confidence, expect| {
            let rate = Rate::Measured { failed, runs };
            assert_eq!(needed(rate, confidence), Some(expect), "{rate} {confidence}");
        };
        // By hand: 0.5/5 × 1.5/6 × 2.5/7 = 0.0089.
        check(4, 4, "0.99", 3);
        check(4, 4, "0.9", 1);
        check(1, 1, "0.99", 14);
        // With a rate of exactly one half it would be 7.
        check(8, 16, "0.99", 9);
        check(500, 1000, "0.99", 7);
        let found = Rate::Measured { failed: 4, runs: 4 }.miss(3);
        assert!((found - 0.5 / 5.0 * 1.5 / 6.0 * 2.5 / 7.0).abs() < 1e-12, "{found}");
    }

    #[test]
    fn the_beta_distribution_is_integrated_right() {
        // Integrates the unnormalized density p^(a-1) (1-p)^(b-1) by the trapezoidal rule.
        let (failed, runs, passes) = (5_u32, 12_u32, 6);
        let density =
            |p: f64| p.powf(f64::from(failed) - 0.5) * (1.0 - p).powf(f64::from(runs - failed) - 0.5);
        let steps = 200_000;
        let points = || (1..steps).map(|step| f64::from(step) / f64::from(steps));
        let whole: f64 = points().map(density).sum();
        let missed: f64 = points().map(|p| density(p) * (1.0 - p).powi(passes)).sum();
        let found = Rate::Measured { failed, runs }.miss(passes as u32);
        assert!((found - missed / whole).abs() < 1e-6, "{found} {}", missed / whole);
    }

    #[test]
    fn measuring_ends_with_enough_failures_or_at_its_limit() {
        let check =
            |failed, runs, expect| assert_eq!(runs_to_measure(failed, runs, 100), expect, "{failed}/{runs}");
        check(0, 0, 4);
        check(4, 4, 0);
        check(3, 4, 4);
        check(7, 8, 8);
        check(8, 16, 0);
        check(0, 64, 36);
        check(0, 100, 0);
        assert_eq!(runs_to_measure(0, 0, 2), 2);
    }

    #[test]
    fn what_is_no_probability_is_refused() {
        for wrong in ["0", "1", "1.5", "-0.5", "NaN", "inf", "", "99%"] {
            assert!(wrong.parse::<Confidence>().is_err(), "{wrong}");
        }
        for wrong in ["0", "1.01", "NaN", ""] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn odds_are_written_without_false_certainty() {
        let check = |probability, expect| assert_eq!(percent(probability), expect);
        check(0.0, "0");
        check(1e-9, "under 0.01");
        check(0.0089, "0.89");
        check(0.023, "2.3");
        check(0.5, "50");
        assert_eq!(any_wrong([0.9, 0.3]), 1.0);
        assert!((any_wrong([0.01, 0.02]) - 0.03).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn needed_is_the_least_that_is_enough(failed in 1_u32..40, passed in 0_u32..40, confidence in 0.01_f64..0.995) {
            let rate = Rate::Measured { failed, runs: failed + passed };
            let needed = rate.passes_needed(Confidence(confidence)).unwrap();
            prop_assert!(rate.miss(needed) <= 1.0 - confidence + 1e-9);
            prop_assert!(needed == 1 || rate.miss(needed - 1) > 1.0 - confidence);
        }

        #[test]
        fn more_passes_are_never_less_sure(failed in 0_u32..40, passed in 0_u32..40, passes in 0_u32..200) {
            let rate = Rate::Measured { failed, runs: failed + passed };
            prop_assert!(rate.miss(passes + 1) < rate.miss(passes));
        }
    }
}
