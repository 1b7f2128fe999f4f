//! Nights → how often something fails, and the odds of what was seen by chance.
//!
//! A rate is uncertain: after `failed` of `tried` it has the distribution Beta(failed + ½, tried - failed + ½)
//! (Jeffreys' prior), as in `bisect`. What was seen is compared with what that distribution predicts.

use crate::{bisect::odds, results::wilson};
use schemars::JsonSchema;
use serde::Serialize;
use std::{collections::VecDeque, fmt, iter};

/// The number of nights that count for a rate: older ones say little about the scenario as it is now.
pub(super) const WINDOW: usize = 90;

/// The numbers of last nights whose rate is compared with that of the nights before.
const RECENT: [usize; 2] = [5, 14];

/// A rate is compared with one of at least this many nights.
const BEFORE_MIN: u32 = 14;

/// What has smaller odds is not taken for chance. Of 10,000 such tests, one is wrong; a fleet whose 20 flakes fail every
/// twentieth night has one test a night.
pub(super) const ODDS_MAX: f64 = 1e-4;

/// What passes in a row with smaller odds is taken to be fixed.
pub(super) const PASSES_BY_CHANCE_MAX: f64 = 0.01;

/// How often something failed, of its first tries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Rate {
    /// The first tries that failed.
    pub failed: u32,
    /// All first tries with a verdict.
    pub tried: u32,
    /// The 95 % confidence interval of the rate, from 0 to 1.
    pub low: f64,
    /// Its end.
    pub high: f64,
}

impl Rate {
    pub(super) fn of(failed: u32, tried: u32) -> Rate {
        let (low, high) = wilson(failed.into(), tried.into()).unwrap_or((0.0, 1.0));
        Rate { failed, tried, low, high }
    }

    /// Returns the odds that this many tries in a row fail.
    pub(super) fn all_fail(self, tries: u32) -> f64 {
        odds::Rate::Measured { failed: self.tried - self.failed, runs: self.tried }.miss(tries)
    }

    /// Returns the odds that this many tries in a row pass.
    pub(super) fn none_fails(self, tries: u32) -> f64 {
        odds::Rate::Measured { failed: self.failed, runs: self.tried }.miss(tries)
    }

    /// Returns the odds that at least `failed` of `tried` tries fail.
    fn at_least(self, failed: u32, tried: u32) -> f64 {
        let (a, b) = (f64::from(self.failed) + 0.5, f64::from(self.tried - self.failed) + 0.5);
        let count = f64::from(tried);
        // The beta-binomial distribution: the odds of no failure, and of each further one.
        let none = (0..tried).map(|i| (b + f64::from(i)) / (a + b + f64::from(i))).product::<f64>();
        let next = |(k, odds): (f64, f64)| {
            (k < count).then(|| (k + 1.0, odds * (count - k) / (k + 1.0) * (a + k) / (b + count - k - 1.0)))
        };
        iter::successors(Some((0.0, none)), |last| next(*last))
            .skip(failed as usize)
            .map(|(_, odds)| odds)
            .sum()
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rate { failed, tried, low, high } = self;
        let rate = if *tried == 0 { 0.0 } else { 100.0 * f64::from(*failed) / f64::from(*tried) };
        write!(out, "{failed} of {tried}: {rate:.1} % ({:.1} to {:.1} %)", 100.0 * low, 100.0 * high)
    }
}

/// The last nights of a scenario in which it was not broken: first tries, and those that failed.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence(VecDeque<(u32, u32)>);

impl Evidence {
    pub(super) fn add(&mut self, tried: u32, failed: u32) {
        self.0.push_back((tried, failed));
        if self.0.len() > WINDOW {
            self.0.pop_front();
        }
    }

    pub(super) fn rate(&self) -> Rate {
        rate(self.0.iter())
    }

    /// Returns the odds of the failures of the last nights by the rate of those before: the smallest, for several numbers
    /// of last nights. `None` if there are too few nights before.
    pub(super) fn odds_of_last(&self) -> Option<f64> {
        let odds = |recent: &usize| {
            let split = self.0.len().checked_sub(*recent)?;
            let (before, last) = (rate(self.0.range(..split)), rate(self.0.range(split..)));
            (before.tried >= BEFORE_MIN).then(|| before.at_least(last.failed, last.tried))
        };
        RECENT.iter().filter_map(odds).reduce(f64::min)
    }
}

fn rate<'a>(nights: impl Iterator<Item = &'a (u32, u32)>) -> Rate {
    let (tried, failed) = nights.fold((0, 0), |sum, night| (sum.0 + night.0, sum.1 + night.1));
    Rate::of(failed, tried)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odds_are_those_of_the_beta_binomial_distribution() {
        let close = |found: f64, expect: f64| assert!((found - expect).abs() < 1e-9, "{found} {expect}");
        // By hand: 0.5/31 × 1.5/32 × 2.5/33.
        close(Rate::of(0, 30).all_fail(3), 0.5 / 31.0 * 1.5 / 32.0 * 2.5 / 33.0);
        let rate = Rate::of(3, 60);
        close(rate.at_least(0, 14), 1.0);
        close(rate.at_least(14, 14), rate.all_fail(14));
        close(rate.at_least(1, 1), 3.5 / 61.0);
        // Two tries: 1 - P(none).
        close(rate.at_least(1, 2), 1.0 - 57.5 / 61.0 * 58.5 / 62.0);
    }

    #[test]
    fn last_nights_are_compared_with_those_before() {
        let odds = |failed: &[u32]| {
            let mut evidence = Evidence::default();
            failed.iter().for_each(|failed| evidence.add(1, *failed));
            evidence.odds_of_last()
        };
        assert_eq!(odds(&[0; 18]), None);
        assert!(odds(&[0; 40]).unwrap() > 0.99);
        let rose = [[0; 30].as_slice(), &[1, 1, 0, 1, 1]].concat();
        assert!(odds(&rose).unwrap() < ODDS_MAX, "{:?}", odds(&rose));
        let once = [[0; 30].as_slice(), &[0, 1, 0, 0, 1]].concat();
        assert!(odds(&once).unwrap() > ODDS_MAX, "{:?}", odds(&once));
        // Nights before the window are forgotten.
        let mut evidence = Evidence::default();
        (0..200).for_each(|night| evidence.add(1, u32::from(night < 100)));
        assert_eq!(evidence.rate().failed, 0);
    }
}
