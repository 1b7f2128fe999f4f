//! Cases and rounds → [`Schedule`]: the order in which cases run, and the position of each result.
//!
//! A pure function of its inputs. A round runs every case once; rounds follow each other without a
//! pause. Within a round, cases that run alone start first, when no others must end for them. Then come
//! those that took longest last time, so that no long one is left for the end. The results are in the
//! order of the cases regardless.
//! A shuffled round starts and lists its cases in an order that depends only on the seed.

use std::cmp::Ordering;

/// One scenario on one kernel, by their indices in the [selection](super::select::Selection).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    /// The index of the kernel.
    pub kernel: usize,
    /// The index of the scenario.
    pub scenario: usize,
    /// The number of the machine, from 1, if the scenario soaks on several.
    pub soak: Option<u32>,
}

impl Case {
    /// Returns every scenario on every kernel, kernel by kernel.
    pub fn all(kernels: usize, scenarios: usize) -> Vec<Case> {
        let of_kernel =
            move |kernel| (0..scenarios).map(move |scenario| Case { kernel, scenario, soak: None });
        (0..kernels).flat_map(of_kernel).collect()
    }
}

/// The weight of a case, which determines when it starts.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Weight {
    /// It took this many seconds last time.
    Took(f64),
    /// It never ran, and may be the longest of all.
    Unknown,
    /// No other case may run at the same time.
    Alone,
}

/// The number of runs of each case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounds {
    /// One; the results have no number.
    One,
    /// This many.
    Count(u32),
    /// Any number, until something ends the run.
    Endless,
}

impl Rounds {
    /// Returns the number of runs of this many cases in total, unless it is unlimited.
    pub fn runs(self, cases: usize) -> Option<usize> {
        match self {
            Rounds::One => Some(cases),
            Rounds::Count(count) => Some(cases * count as usize),
            Rounds::Endless => None,
        }
    }
}

/// The order in which cases run.
#[derive(Clone, Debug)]
pub struct Schedule {
    cases: usize,
    rounds: Rounds,
    order: Order,
}

#[derive(Clone, Debug)]
enum Order {
    /// Cases in the order in which they start, the same in each round.
    Heaviest(Vec<usize>),
    Shuffled(u64),
}

/// One run of one case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduledRun {
    /// The index of the case.
    pub case: usize,
    /// The position of its result in the list of results.
    pub place: usize,
    /// The number of the repeat, from 1; `None` if there is only one round.
    pub repeat: Option<u32>,
}

impl Schedule {
    /// Returns a schedule that starts the heaviest cases first.
    pub fn heaviest_first(weights: &[Weight], rounds: Rounds) -> Schedule {
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by(|&a, &b| weights[b].partial_cmp(&weights[a]).unwrap_or(Ordering::Equal));
        Schedule { cases: weights.len(), rounds, order: Order::Heaviest(order) }
    }

    /// Returns a schedule in an order determined by `seed`, which differs from round to round.
    pub fn shuffled(cases: usize, seed: u64, rounds: Rounds) -> Schedule {
        Schedule { cases, rounds, order: Order::Shuffled(seed) }
    }

    /// Returns the number of turns; `None` if it is unlimited.
    pub fn turns(&self) -> Option<usize> {
        match self.rounds {
            Rounds::One => Some(self.cases),
            Rounds::Count(count) => Some(self.cases.saturating_mul(count as usize)),
            Rounds::Endless if self.cases == 0 => Some(0),
            Rounds::Endless => None,
        }
    }

    /// Returns turn `number`, counted from 0 in the order of starts.
    pub fn turn(&self, number: usize) -> Option<ScheduledRun> {
        if self.cases == 0 || self.turns().is_some_and(|turns| number >= turns) {
            return None;
        }
        let (round, within) = (number / self.cases, number % self.cases);
        let repeat = u32::try_from(round + 1).ok()?;
        let (case, place) = match &self.order {
            Order::Heaviest(order) => (order[within], order[within]),
            Order::Shuffled(seed) => (permutation(self.cases, *seed, round as u64)[within], within),
        };
        let repeat = (self.rounds != Rounds::One).then_some(repeat);
        Some(ScheduledRun { case, place: round * self.cases + place, repeat })
    }
}

/// Returns the numbers below `count` in an order determined by `seed` and `round`: a Fisher-Yates
/// shuffle with SplitMix64, written out so that a seed always means the same order.
fn permutation(count: usize, seed: u64, round: u64) -> Vec<usize> {
    let mut state = seed ^ round.wrapping_mul(0xd6e8_feb8_6659_fd93);
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let mut numbers: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        numbers.swap(last, (next() % (last as u64 + 1)) as usize);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::{
        Weight::{Alone, Took, Unknown},
        *,
    };
    use std::collections::BTreeSet;

    fn turns(schedule: &Schedule, count: usize) -> Vec<(usize, usize, Option<u32>)> {
        let turn = |number| schedule.turn(number).map(|turn| (turn.case, turn.place, turn.repeat));
        (0..count).map_while(turn).collect()
    }

    #[test]
    fn the_heaviest_starts_first_and_its_result_stands_where_it_was_listed() {
        let check = |weights: &[Weight], expect: &[usize]| {
            let found = turns(&Schedule::heaviest_first(weights, Rounds::One), 99);
            let expect: Vec<_> = expect.iter().map(|&case| (case, case, None)).collect();
            assert_eq!(found, expect, "{weights:?}");
        };
        check(&[], &[]);
        check(&[Took(1.0), Took(3.0), Took(2.0)], &[1, 2, 0]);
        check(&[Took(1.0), Unknown, Took(2.0), Unknown], &[1, 3, 2, 0]);
        check(&[Took(9.0), Unknown, Alone, Took(2.0), Alone], &[2, 4, 1, 0, 3]);
        check(&[Took(1.0), Took(1.0)], &[0, 1]);
    }

    #[test]
    fn rounds_follow_each_other_and_are_numbered() {
        let two = Schedule::heaviest_first(&[Took(1.0), Took(2.0)], Rounds::Count(2));
        let expect = [(1, 1, Some(1)), (0, 0, Some(1)), (1, 3, Some(2)), (0, 2, Some(2))];
        assert_eq!(turns(&two, 99), expect);
        assert_eq!(two.turns(), Some(4));
        let endless = Schedule::heaviest_first(&[Unknown], Rounds::Endless);
        assert_eq!(endless.turns(), None);
        assert_eq!(endless.turn(4999).map(|turn| turn.repeat), Some(Some(5000)));
        assert_eq!(Schedule::heaviest_first(&[], Rounds::Endless).turn(0), None);
    }

    #[test]
    fn a_seed_decides_the_order_of_every_round() {
        let order = |seed: u64| -> Vec<usize> {
            let schedule = Schedule::shuffled(20, seed, Rounds::Count(2));
            turns(&schedule, 99).iter().map(|turn| turn.0).collect()
        };
        assert_eq!(order(7), order(7));
        assert_ne!(order(7), order(8));
        let both = order(7);
        let (first, second) = both.split_at(20);
        assert_ne!(first, second);
        for round in [first, second] {
            assert_eq!(round.iter().copied().collect::<BTreeSet<_>>().len(), 20);
        }
        // A seed means the same order in every version of the lab.
        assert_eq!(permutation(5, 1, 0), [2, 1, 4, 3, 0]);
    }

    #[test]
    fn shuffled_results_stand_in_the_order_of_their_start() {
        let schedule = Schedule::shuffled(5, 3, Rounds::Count(2));
        let places: Vec<_> = turns(&schedule, 99).iter().map(|turn| turn.1).collect();
        assert_eq!(places, (0..10).collect::<Vec<_>>());
    }
}
