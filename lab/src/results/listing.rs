//! The instructions that a text step read, stored next to its output: `steps/N-instructions.json`.
//!
//! Only addresses and words are stored. Reports add names from the symbols of the trace.

use serde::{Deserialize, Serialize};

/// The suffix of such a file's name.
pub(crate) const LISTING_SUFFIX: &str = "-instructions.json";

/// The words that one step read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TextListing {
    /// The unexpected ones, then the others, each in the order of their addresses.
    pub(crate) words: Vec<TextWord>,
    /// The number of further words, which are left out.
    pub(crate) more: usize,
    /// Whether they are the halves of a pointer, not instructions.
    pub(crate) literal: bool,
}

/// One word of the kernel's text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TextWord {
    pub(crate) address: u64,
    /// The word as a step last read it, or before the trace was armed; absent if unknown.
    pub(crate) before: Option<u32>,
    /// The word found; absent if it cannot be read.
    pub(crate) found: Option<u32>,
    /// The expected word, if there is only one.
    pub(crate) expected: Option<u32>,
    /// The expectation as text, if it is not a single word; empty if any word is allowed.
    pub(crate) expected_text: String,
    pub(crate) holds: bool,
}
