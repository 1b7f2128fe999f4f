//! Text checks as listings: previous, expected and found instructions, disassembled.

use crate::{
    arm64,
    host::beneath::read_beneath,
    results::{LISTING_SUFFIX, ScenarioResult, TextListing},
};
use serde::Serialize;
use std::path::Path;
use trace::Trace;

/// The maximum number of bytes read of a stored listing.
const FILE_MAX: u64 = 1 << 20;

/// The kernel text that a step checked.
#[derive(Debug, Serialize)]
pub(super) struct Listing {
    /// The step, from 1.
    step: usize,
    more: usize,
    lines: Vec<Line>,
}

/// One word. Instructions look like `d503201f  nop`; empty if not known.
#[derive(Debug, Serialize)]
struct Line {
    address: String,
    symbol: String,
    before: String,
    expected: String,
    found: String,
    holds: bool,
}

/// Returns the listings of a result's steps. Symbols come from the trace, which has those of the running
/// kernel; without a trace only addresses are shown.
pub(super) fn listings(result: &ScenarioResult, place: &Path, trace: Option<&Trace>) -> Vec<Listing> {
    let of_step = |(index, step): (usize, &crate::results::StepResult)| {
        let name = step.output.iter().find(|name| is_listing(name))?;
        let stored = stored(place, name)?;
        Some(Listing { step: index + 1, more: stored.more, lines: lines(&stored, trace) })
    };
    result.steps.iter().enumerate().filter_map(of_step).collect()
}

/// Returns whether a file of a step is a listing, not output.
pub(super) fn is_listing(name: &str) -> bool {
    name.ends_with(LISTING_SUFFIX)
}

fn stored(place: &Path, name: &str) -> Option<TextListing> {
    serde_json::from_slice(&read_beneath(place, name, FILE_MAX).ok()?).ok()
}

fn lines(stored: &TextListing, trace: Option<&Trace>) -> Vec<Line> {
    let none = trace::Symbols::default();
    let symbols = trace.map_or(&none, |trace| trace.metadata().symbols());
    let shown = |address: u64, word: Option<u32>| match word {
        Some(word) if stored.literal => format!("{word:08x}"),
        Some(word) => arm64::shown(address, word, symbols),
        None => String::new(),
    };
    let line = |word: &crate::results::TextWord| Line {
        address: format!("{:x}", word.address),
        symbol: symbols.resolve(word.address).map(|symbol| symbol.to_string()).unwrap_or_default(),
        before: shown(word.address, word.before),
        expected: match word.expected {
            Some(expected) => shown(word.address, Some(expected)),
            None => word.expected_text.clone(),
        },
        found: match word.found {
            Some(found) => shown(word.address, Some(found)),
            None => "unreadable".to_owned(),
        },
        holds: word.holds,
    };
    stored.words.iter().map(line).collect()
}
