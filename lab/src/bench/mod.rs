//! Benchmarks of the lab: ratios measured within one run, under stable names.

mod boot;
mod child;
mod confine;
mod coverage;
mod edit;
mod explore;
mod fleet;
mod gcov;
mod growth;
mod isolation;
mod merge;
mod report;
mod resolve;
mod stock;
mod trace;
mod userland;

pub use boot::boot;
pub use confine::confine;
pub use coverage::coverage;
pub use edit::edit;
pub use explore::explore;
pub use fleet::fleet;
pub use gcov::gcov;
pub use isolation::isolation;
pub use merge::merge;
pub use report::{Look, report};
pub use resolve::resolve;
pub use trace::trace;
pub use userland::userland;

use serde::Serialize;
use std::{collections::BTreeMap, fmt};

/// The figures of one bench.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// The bench's name.
    pub bench: String,
    /// Values by figure; the name ends in the unit.
    pub figures: BTreeMap<String, f64>,
    /// A table of some of them, for display; empty if the list suffices.
    #[serde(skip)]
    pub table: String,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.figures.keys().map(String::len).max().unwrap_or_default();
        self.figures.iter().try_for_each(|(name, value)| writeln!(f, "{name:width$}  {value:.3}"))?;
        if self.table.is_empty() { Ok(()) } else { write!(f, "\n{}", self.table) }
    }
}

/// Returns the median of the measurements; 0 if there are none.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
