//! Text checks as a listing: what was there, what is, and what has to be, in the words of arm64.

use crate::{
    arm64,
    recording::{LISTING_SUFFIX, TextListing},
    report::ScenarioResult,
    trace::Trace,
};
use serde::Serialize;
use std::{fs::File, io::Read, path::Path};

/// The most bytes of a stored listing that are read.
const FILE_MAX: u64 = 1 << 20;

/// What one step looked at.
#[derive(Debug, Serialize)]
pub(super) struct Listing {
    /// The step, from 1.
    step: usize,
    more: usize,
    lines: Vec<Line>,
}

/// One word. Texts are as `d503201f  nop`, empty where there is nothing to say.
#[derive(Debug, Serialize)]
struct Line {
    address: String,
    symbol: String,
    before: String,
    expected: String,
    found: String,
    holds: bool,
}

/// The listings of a result's steps. Without a trace, whose symbols are those of the running kernel,
/// places are only addresses.
pub(super) fn listings(result: &ScenarioResult, place: &Path, trace: Option<&Trace>) -> Vec<Listing> {
    let of_step = |(index, step): (usize, &crate::report::StepResult)| {
        let name = step.output.iter().find(|name| is_listing(name))?;
        let stored = stored(&place.join(name))?;
        Some(Listing { step: index + 1, more: stored.more, lines: lines(&stored, trace) })
    };
    result.steps.iter().enumerate().filter_map(of_step).collect()
}

/// Whether a step's file is a listing, and not its output.
pub(super) fn is_listing(name: &str) -> bool {
    name.ends_with(LISTING_SUFFIX)
}

fn stored(path: &Path) -> Option<TextListing> {
    let mut json = Vec::new();
    File::open(path).ok()?.take(FILE_MAX).read_to_end(&mut json).ok()?;
    serde_json::from_slice(&json).ok()
}

fn lines(stored: &TextListing, trace: Option<&Trace>) -> Vec<Line> {
    let none = crate::trace::Symbols::default();
    let symbols = trace.map_or(&none, |trace| trace.metadata().symbols());
    let shown = |address: u64, word: Option<u32>| match word {
        Some(word) if stored.literal => format!("{word:08x}"),
        Some(word) => arm64::shown(address, word, symbols),
        None => String::new(),
    };
    let line = |word: &crate::recording::TextWord| Line {
        address: format!("{:x}", word.address),
        symbol: symbols.resolve(word.address).map(|symbol| symbol.to_string()).unwrap_or_default(),
        before: shown(word.address, word.before),
        expected: match word.expected {
            Some(expected) => shown(word.address, Some(expected)),
            None => word.expected_text.clone(),
        },
        found: match word.found {
            Some(found) => shown(word.address, Some(found)),
            None => "it cannot be read".to_owned(),
        },
        holds: word.holds,
    };
    stored.words.iter().map(line).collect()
}
