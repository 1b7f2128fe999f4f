//! Sets of addresses.

use std::{iter, ops::Range};

/// A set of addresses: sorted ranges that neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(Vec<Range<u64>>);

impl Ranges {
    /// Returns the ranges in order.
    pub fn iter(&self) -> impl Iterator<Item = &Range<u64>> {
        self.0.iter()
    }

    /// Returns the number of addresses.
    pub fn size(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }

    /// Returns whether an address is in the set.
    pub fn contains(&self, address: u64) -> bool {
        let place = self.0.partition_point(|range| range.end <= address);
        self.0.get(place).is_some_and(|range| range.start <= address)
    }

    /// Returns whether any address of `other` is in the set.
    pub fn meets(&self, other: &Range<u64>) -> bool {
        let place = self.0.partition_point(|range| range.end <= other.start);
        self.0.get(place).is_some_and(|range| range.start < other.end && !other.is_empty())
    }

    /// Returns the addresses that are in either set.
    pub fn and(&self, other: &Ranges) -> Ranges {
        let (mut one, mut other) = (self.0.iter().peekable(), other.0.iter().peekable());
        let sorted = iter::from_fn(|| match (one.peek(), other.peek()) {
            (Some(a), Some(b)) if b.start < a.start => other.next(),
            (Some(_), _) => one.next(),
            (None, _) => other.next(),
        });
        joined(sorted.cloned())
    }

    /// Returns the addresses that are not in `other`.
    pub fn without(&self, other: &Ranges) -> Ranges {
        let mut left = Vec::new();
        let mut others = other.0.iter().peekable();
        for range in &self.0 {
            let mut start = range.start;
            while let Some(taken) = others.next_if(|taken| taken.end <= range.end) {
                if taken.start > start {
                    left.push(start..taken.start.min(range.end));
                }
                start = start.max(taken.end);
            }
            // The next one may reach into later ranges, too.
            let end = others.peek().map_or(range.end, |taken| taken.start.min(range.end));
            if start < end {
                left.push(start..end);
            }
        }
        Ranges(left)
    }
}

impl FromIterator<Range<u64>> for Ranges {
    /// Collects ranges in any order, which may overlap.
    fn from_iter<I: IntoIterator<Item = Range<u64>>>(ranges: I) -> Ranges {
        let mut all: Vec<Range<u64>> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
        // Stable, since that is fast where sorted sets follow one another.
        all.sort_by_key(|range| range.start);
        joined(all)
    }
}

/// Joins sorted ranges that overlap or touch.
fn joined(sorted: impl IntoIterator<Item = Range<u64>>) -> Ranges {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match joined.last_mut().filter(|last| last.end >= range.start) {
            Some(last) => last.end = last.end.max(range.end),
            None => joined.push(range),
        }
    }
    Ranges(joined)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Ranges below 64, and the same set as bits.
    fn set() -> impl Strategy<Value = (Ranges, u64)> {
        prop::collection::vec((0..64_u64, 0..8_u64), 0..12).prop_map(|pieces| {
            let ranges: Ranges =
                pieces.iter().map(|(start, length)| *start..(start + length).min(64)).collect();
            let bits = (0..64)
                .filter(|at| pieces.iter().any(|(start, length)| (*start..start + length).contains(at)));
            let bits = bits.fold(0, |bits, at| bits | 1 << at);
            (ranges, bits)
        })
    }

    fn bits(ranges: &Ranges) -> u64 {
        (0..64).filter(|at| ranges.contains(*at)).fold(0, |bits, at| bits | 1 << at)
    }

    proptest! {
        #[test]
        fn sets_are_those_of_single_addresses((one, a) in set(), (other, b) in set(), start in 0..64_u64, end in 0..64_u64) {
            prop_assert_eq!(bits(&one), a);
            prop_assert_eq!(one.size(), u64::from(a.count_ones()));
            prop_assert_eq!(bits(&one.and(&other)), a | b);
            prop_assert_eq!(bits(&one.without(&other)), a & !b);
            prop_assert_eq!(one.meets(&(start..end)), (start..end).any(|at| a >> at & 1 == 1));
            // Neither empty nor touching.
            for set in [&one, &one.and(&other), &one.without(&other)] {
                prop_assert!(set.0.iter().all(|range| range.start < range.end));
                prop_assert!(set.0.windows(2).all(|pair| pair[0].end < pair[1].start));
            }
        }
    }
}
