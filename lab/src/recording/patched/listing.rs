//! The instructions that a text step read, stored with its output: `steps/N-instructions.json`.
//!
//! The file has numbers only. Reports take the names from the symbols of the trace.

use super::{Difference, compare::Expected};
use crate::results::{TextListing, TextWord};

/// The maximum number of instructions that are stored per step.
pub(super) const KEPT_MAX: usize = 64;

/// Returns the listing of the instructions that a step compared, unexpected ones first. It compared `total`, of which
/// those that would not be shown may be missing.
pub(super) fn listing(compared: &[Difference], total: usize, literal: bool) -> TextListing {
    let mut order: Vec<&Difference> = compared.iter().collect();
    order.sort_by_key(|one| (one.holds, one.address));
    let words = order.iter().take(KEPT_MAX).map(|one| {
        let (expected, expected_text) = match &one.expected {
            None => (None, String::new()),
            Some(Expected::Exactly(word)) => (Some(*word), String::new()),
            Some(other) => (None, other.to_string()),
        };
        TextWord {
            address: one.address,
            before: one.reading.before,
            found: one.reading.found,
            expected,
            expected_text,
            holds: one.holds,
        }
    });
    TextListing { words: words.collect(), more: total.saturating_sub(KEPT_MAX), literal }
}

#[cfg(test)]
mod tests {
    use super::{super::Reading, *};

    #[test]
    fn what_differs_comes_first_and_there_is_an_end() {
        let one = |address: u64| Difference {
            address,
            expected: (address != 8).then_some(Expected::Any { link: true }),
            reading: Reading { found: Some(1), ..Reading::default() },
            holds: address != 400,
        };
        let compared: Vec<_> = (0..101).map(|index| one(index * 4)).collect();
        let listing = listing(&compared, compared.len(), false);
        assert_eq!((listing.words.len(), listing.more), (KEPT_MAX, 101 - KEPT_MAX));
        let first: Vec<_> = listing.words.iter().take(4).map(|word| word.address).collect();
        assert_eq!(first, [400, 0, 4, 8]);
        assert_eq!(listing.words[0].expected_text, "any `bl`");
        assert_eq!(listing.words[3].expected_text, "");
    }
}
