//! What a text step looked at, kept beside its output: `steps/N-instructions.json`.
//!
//! Words only. What they are called is found where they are shown, by the symbols of the trace.

use super::{Difference, compare::Expected};
use crate::recording::{Death, Recorder};
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::fs;

/// The most words that one step keeps.
const KEPT_MAX: usize = 64;

/// What the name of such a file ends in.
pub(crate) const SUFFIX: &str = "-instructions.json";

/// What one step looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Listing {
    /// Those that are not what they must be, then the others, each in the order of their addresses.
    pub(crate) words: Vec<Looked>,
    /// How many more there were.
    pub(crate) more: usize,
    /// Whether they are the halves of a pointer, and no instructions.
    pub(crate) literal: bool,
}

/// One word of the kernel's text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Looked {
    pub(crate) address: u64,
    /// When a step last looked, or before the trace was armed; absent if nobody knows.
    pub(crate) before: Option<u32>,
    /// What it is; absent if it cannot be read.
    pub(crate) found: Option<u32>,
    /// What it must be, where that is one word.
    pub(crate) expected: Option<u32>,
    /// What it must be, where that is not one word; empty if it may be anything.
    pub(crate) expected_text: String,
    pub(crate) holds: bool,
}

impl Listing {
    /// Of all words that a step compared.
    pub(super) fn of(compared: &[Difference], literal: bool) -> Listing {
        let mut order: Vec<&Difference> = compared.iter().collect();
        order.sort_by_key(|one| (one.holds, one.address));
        let words = order.iter().take(KEPT_MAX).map(|one| {
            let (expected, expected_text) = match &one.expected {
                None => (None, String::new()),
                Some(Expected::Exactly(word)) => (Some(*word), String::new()),
                Some(other) => (None, other.to_string()),
            };
            Looked {
                address: one.address,
                before: one.looked.before,
                found: one.looked.found,
                expected,
                expected_text,
                holds: one.holds,
            }
        });
        Listing { words: words.collect(), more: compared.len().saturating_sub(KEPT_MAX), literal }
    }
}

impl Recorder<'_> {
    /// Stores what a step looked at; gives back its path below the scenario's directory.
    pub(super) fn keep_listing(&self, number: usize, listing: &Listing) -> Result<String, Death> {
        let name = format!("steps/{number}{SUFFIX}");
        let path = self.directory.join(&name);
        let write = || {
            fs::create_dir_all(self.directory.join("steps"))?;
            anyhow::Ok(fs::write(&path, serde_json::to_vec(listing)?)?)
        };
        write().with_context(|| format!("cannot write `{}`", path.display())).map_err(Death::Lab)?;
        Ok(name)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Looked as Read, *};

    #[test]
    fn what_differs_comes_first_and_there_is_an_end() {
        let one = |address: u64| Difference {
            address,
            expected: (address != 8).then_some(Expected::Any { link: true }),
            looked: Read { found: Some(1), ..Read::default() },
            holds: address != 400,
        };
        let compared: Vec<_> = (0..101).map(|index| one(index * 4)).collect();
        let listing = Listing::of(&compared, false);
        assert_eq!((listing.words.len(), listing.more), (KEPT_MAX, 101 - KEPT_MAX));
        let first: Vec<_> = listing.words.iter().take(4).map(|word| word.address).collect();
        assert_eq!(first, [400, 0, 4, 8]);
        assert_eq!(listing.words[0].expected_text, "any `bl`");
        assert_eq!(listing.words[3].expected_text, "");
    }
}
