//! A part of a run for one machine of a fleet: `--shard 2/5`.
//!
//! The split is a pure function of the names and the given weights, in whole milliseconds: all
//! machines compute the same split from the same input, whatever times they measured themselves.
//! Each name is in exactly one shard.

use crate::{cache::KeyBuilder, results::Shard};
use std::{cmp::Reverse, collections::BinaryHeap, str::FromStr};

/// A shard as on the command line: `2/5`, or `2/5 of 4f2a91c0` if its split must have this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedShard {
    /// The part.
    pub shard: Shard,
    /// The name of the split.
    split: Option<String>,
}

impl FromStr for NamedShard {
    type Err = String;

    fn from_str(text: &str) -> Result<NamedShard, String> {
        let (shard, split) = match text.split_once(" of ") {
            Some((shard, split)) => (shard, Some(split.to_owned())),
            None => (text, None),
        };
        Ok(NamedShard { shard: shard.parse()?, split })
    }
}

impl NamedShard {
    /// Returns an error if a split has another name than the one on the command line.
    pub fn check(&self, split: &str) -> Result<(), String> {
        match &self.split {
            Some(expected) if expected != split => Err(format!(
                "cannot run part {} of {expected}: these scenarios, kernels and --times make the split {split}; \
                 name those of the other parts",
                self.shard
            )),
            _ => Ok(()),
        }
    }
}

/// An item to split: the names of its kernel and scenario, and its time in seconds, if known.
pub type Weighed<'a> = ((&'a str, &'a str), Option<f64>);

/// Returns the number of the shard, from 1, to which each item is assigned: longest first, each to the
/// shard with the least time so far. One without a time counts as the mean of the others.
pub fn assign(items: &[Weighed<'_>], of: usize) -> Vec<usize> {
    let known: Vec<u64> = items.iter().filter_map(|(_, seconds)| seconds.map(milliseconds)).collect();
    let mean = known.iter().sum::<u64>().checked_div(known.len() as u64).unwrap_or(1).max(1);
    let weight = |item: &Weighed<'_>| item.1.map_or(mean, milliseconds);
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&item| (Reverse(weight(&items[item])), items[item].0));
    let mut loads: BinaryHeap<Reverse<(u64, usize)>> = (1..=of).map(|shard| Reverse((0, shard))).collect();
    let mut shards = vec![0; items.len()];
    for item in order {
        let Some(Reverse((load, shard))) = loads.pop() else { break };
        shards[item] = shard;
        loads.push(Reverse((load.saturating_add(weight(&items[item])), shard)));
    }
    shards
}

impl Shard {
    /// Returns the indices of this shard's `items`, in their order.
    pub fn pick(self, items: &[Weighed<'_>]) -> Vec<usize> {
        let shards = assign(items, self.of);
        (0..items.len()).filter(|&item| shards[item] == self.number).collect()
    }
}

/// Returns a short name of the items and their weights, independent of their order. Machines that
/// print the same name have the same split, and together run everything.
pub fn fingerprint(items: &[Weighed<'_>]) -> String {
    let mut items = items.to_vec();
    items.sort_by_key(|item| item.0);
    let mut key = KeyBuilder::default();
    for ((kernel, scenario), seconds) in items {
        let weight = seconds.map_or(0, milliseconds).to_le_bytes();
        key = key.input("kernel", kernel).input("scenario", scenario).input("weight", weight);
    }
    let key = key.finish("");
    key.as_str().trim_start_matches('-').chars().take(8).collect()
}

/// Converts to milliseconds. At least one, so that items that take no time are also spread over all
/// shards; at most about a day, so that no sum overflows.
fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1000.0).round().clamp(1.0, 1e8) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_part_of_another_split_is_refused() {
        let check = |text: &str| text.parse::<NamedShard>().unwrap().check("4f2a91c0");
        assert_eq!((check("2/5"), check("2/5 of 4f2a91c0")), (Ok(()), Ok(())));
        let error = check("2/5 of 00000000").unwrap_err();
        assert!(error.contains("part 2/5 of 00000000: these") && error.contains("split 4f2a91c0"), "{error}");
        assert!("6/5 of 4f2a91c0".parse::<NamedShard>().is_err());
    }

    #[test]
    fn another_split_has_another_name() {
        let items = |seconds| [(("6.12", "a"), Some(seconds)), (("6.12", "b"), None)];
        assert_eq!(fingerprint(&items(1.0)), fingerprint(&items(1.0001)));
        assert_ne!(fingerprint(&items(1.0)), fingerprint(&items(2.0)));
        assert_ne!(fingerprint(&items(1.0)), fingerprint(&items(1.0)[..1]));
    }

    fn pick(shard: &str, items: &[(&str, Option<f64>)]) -> Vec<String> {
        let weighed: Vec<_> = items.iter().map(|(name, seconds)| (("6.12", *name), *seconds)).collect();
        let picked = shard.parse::<Shard>().unwrap().pick(&weighed);
        picked.into_iter().map(|item| items[item].0.to_owned()).collect()
    }

    #[test]
    fn the_longest_is_alone_where_it_weighs_as_much_as_the_rest() {
        let items = [("a", Some(1.0)), ("b", Some(3.0)), ("c", Some(1.0)), ("d", Some(1.0))];
        assert_eq!(pick("1/2", &items), ["b"]);
        assert_eq!(pick("2/2", &items), ["a", "c", "d"]);
        // An item without a time counts as the mean, here 2 s.
        let items = [("a", Some(1.0)), ("b", Some(3.0)), ("c", None)];
        assert_eq!(pick("1/2", &items), ["b"]);
        assert_eq!(pick("2/2", &items), ["a", "c"]);
        let items = [("a", None), ("b", None), ("c", None)];
        assert_eq!(pick("1/2", &items), ["a", "c"]);
        assert_eq!(pick("3/3", &[("a", None)]), Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn every_item_is_in_one_shard_whatever_the_order(
            seconds in proptest::collection::vec(proptest::option::of(0.0..100.0_f64), 0..40),
            of in 1..9_usize,
        ) {
            let names: Vec<String> = (0..seconds.len()).map(|number| format!("s{number}")).collect();
            let items: Vec<Weighed<'_>> =
                names.iter().zip(&seconds).map(|(name, seconds)| (("k", name.as_str()), *seconds)).collect();
            let reversed: Vec<_> = items.iter().rev().copied().collect();
            let mut seen = vec![0; items.len()];
            for number in 1..=of {
                let shard = Shard { number, of };
                let picked = shard.pick(&items);
                let mut other: Vec<_> =
                    shard.pick(&reversed).into_iter().map(|item| items.len() - 1 - item).collect();
                other.sort_unstable();
                prop_assert_eq!(fingerprint(&items), fingerprint(&reversed));
                prop_assert_eq!(&picked, &other);
                picked.into_iter().for_each(|item| seen[item] += 1);
            }
            prop_assert!(seen.iter().all(|&count| count == 1));
        }
    }
}
