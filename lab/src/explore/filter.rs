//! Event filters.

use serde::{Deserialize, Serialize};

/// An event filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) enum Filter {
    /// All events pass.
    Clear,
    /// `value > 2`
    Above,
    /// `value == 4 || value == 8`
    Either,
    /// `value & 6`
    Bits,
    /// `value >`, which is no filter.
    Malformed,
}

/// All of them.
pub(super) const FILTERS: [Filter; 5] =
    [Filter::Clear, Filter::Above, Filter::Either, Filter::Bits, Filter::Malformed];

impl Filter {
    /// As written.
    pub(super) fn text(self) -> &'static str {
        match self {
            Filter::Clear => "0",
            Filter::Above => "value > 2",
            Filter::Either => "value == 4 || value == 8",
            Filter::Bits => "value & 6",
            Filter::Malformed => "value >",
        }
    }

    /// Returns whether it lets an event pass.
    pub(super) fn passes(self, value: u64) -> bool {
        match self {
            Filter::Clear | Filter::Malformed => true,
            Filter::Above => value > 2,
            Filter::Either => value == 4 || value == 8,
            Filter::Bits => value & 6 != 0,
        }
    }
}
