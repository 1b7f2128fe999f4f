//! Shows results: `junit.xml`, `results.ktap`, `report.html`, Markdown, the terminal.

mod annotations;
mod divergence;
mod html;
mod junit;
mod ktap;
mod markdown;
mod terminal;

pub use annotations::{Annotation, annotations};
pub use divergence::side_by_side;
pub(crate) use html::{BASE_STYLE, Hash as StyleHash};
pub use html::{REPORT, write_html};
pub use junit::write_junit;
pub use ktap::write_ktap;
pub use markdown::{Page, escaped, markdown};
pub use terminal::{Terminal, summary};

use crate::{context::Lab, results::Results};
use anyhow::Result;
use std::path::Path;

/// Writes the other forms of a run's results next to `results.json` in `run`, which will have the name of
/// `target`. The pages of coverage need the builds of the kernels that were measured, which `lab` has.
pub fn write_forms(results: &Results, run: &Path, target: &Path, lab: Option<&Lab>) -> Result<()> {
    write_junit(results, run)?;
    write_ktap(results, run)?;
    write_html(results, run, target, lab)
}
