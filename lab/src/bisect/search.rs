//! Finds the change in a row of candidates whose ends differ. Knows nothing of kernels.

use anyhow::Result;

/// The result of trying one candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Like the early end.
    Early,
    /// Like the late end.
    Late,
    /// Neither: it cannot be tested.
    Skip,
}

/// The boundary. Candidates between the two were skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The last candidate known to be like the early end.
    pub early: usize,
    /// The first candidate known to be like the late end.
    pub late: usize,
}

/// The remainder of a search, for progress messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remaining {
    /// The number of candidates that may be the first changed one.
    pub candidates: usize,
    /// The approximate number of tries needed.
    pub tries: u32,
}

impl Remaining {
    /// Returns what is left if one of `candidates` is the change.
    pub fn of(candidates: usize) -> Remaining {
        Remaining { candidates, tries: candidates.max(1).next_power_of_two().trailing_zeros() }
    }
}

/// Searches `count` candidates, the first and the last of which are known to differ. Calls `try_one` at
/// most once per candidate.
pub(super) fn search(
    count: usize,
    mut try_one: impl FnMut(usize, Remaining) -> Result<Answer>,
) -> Result<Found> {
    let (mut early, mut late) = (0, count.saturating_sub(1));
    let mut skipped = vec![false; count];
    while let Some(next) = middle(early, late, &skipped) {
        match try_one(next, Remaining::of(late - early))? {
            Answer::Early => early = next,
            Answer::Late => late = next,
            Answer::Skip => skipped[next] = true,
        }
    }
    Ok(Found { early, late })
}

/// Returns the untried candidate nearest to the middle of the remaining range.
fn middle(early: usize, late: usize, skipped: &[bool]) -> Option<usize> {
    let middle = early + (late - early) / 2;
    (early + 1..late).filter(|&place| !skipped[place]).min_by_key(|place| place.abs_diff(middle))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn check(change: usize, skipped: &BTreeSet<usize>, count: usize) -> (Found, usize) {
        let mut tried = BTreeSet::new();
        let found = search(count, |place, left| {
            assert!(tried.insert(place), "{place} was tried twice");
            assert!(left.candidates >= 2);
            Ok(match (skipped.contains(&place), place < change) {
                (true, _) => Answer::Skip,
                (false, true) => Answer::Early,
                (false, false) => Answer::Late,
            })
        });
        (found.unwrap(), tried.len())
    }

    #[test]
    fn two_are_known_without_a_try() {
        assert_eq!(check(1, &BTreeSet::new(), 2), (Found { early: 0, late: 1 }, 0));
    }

    #[test]
    fn what_is_skipped_hides_where_it_changed() {
        let (found, _) = check(4, &BTreeSet::from([3, 4]), 8);
        assert_eq!(found, Found { early: 2, late: 5 });
        let (found, _) = check(4, &BTreeSet::from([5, 2]), 8);
        assert_eq!(found, Found { early: 3, late: 4 });
    }

    #[test]
    fn what_is_left_is_told() {
        assert_eq!(Remaining::of(1), Remaining { candidates: 1, tries: 0 });
        assert_eq!(Remaining::of(2).tries, 1);
        assert_eq!(Remaining::of(5).tries, 3);
        assert_eq!(Remaining::of(1024).tries, 10);
    }

    #[test]
    fn an_error_ends_it() {
        assert!(search(9, |_, _| anyhow::bail!("no")).is_err());
    }

    proptest! {
        #[test]
        fn the_change_is_found_or_lies_among_the_skipped(
            count in 2_usize..200,
            change in 0.0_f64..1.0,
            skipped in proptest::collection::btree_set(1_usize..199, 0..60),
        ) {
            let change = 1 + (change * (count - 1) as f64) as usize;
            let skipped: BTreeSet<usize> = skipped.into_iter().filter(|place| place + 1 < count).collect();
            let (found, tries) = check(change, &skipped, count);
            prop_assert!(found.early < change && change <= found.late);
            prop_assert!((found.early + 1..found.late).all(|place| skipped.contains(&place)));
            if skipped.is_empty() {
                prop_assert_eq!(found.late, change);
                prop_assert!(tries <= Remaining::of(count).tries as usize);
            }
        }
    }
}
