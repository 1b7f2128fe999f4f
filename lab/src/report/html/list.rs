//! What the page knows at once: the run, its kernels, and a line for each result.

use super::{Blocks, again::again};
use crate::{
    report::{Results, ScenarioResult},
    verdict::Status,
};
use serde::Serialize;
use std::path::Path;

/// The most characters of a claim or a reason in the list.
const LINE_MAX: usize = 300;

/// Data of the whole page.
#[derive(Serialize)]
pub(super) struct List<'a> {
    run: &'a crate::report::Run,
    host: &'a crate::report::Host,
    qemu: &'a str,
    kernels: &'a [crate::report::KernelInfo],
    /// The name of the directory that the links of the page belong to.
    directory: String,
    /// All statuses there can be, and whether a run with them can end well.
    statuses: Vec<(String, bool)>,
    /// How many results have no timeline since the page would be too large.
    without_timeline: usize,
    results: Vec<Row<'a>>,
}

/// One result.
#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    kernel: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    repeat: Option<u32>,
    status: String,
    seconds: f64,
    #[serde(skip_serializing_if = "String::is_empty")]
    claim: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<u64>,
    again: String,
}

impl<'a> List<'a> {
    pub(super) fn of(results: &'a Results, run: &Path, blocks: &[Blocks], without: usize) -> List<'a> {
        let name = run.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_owned()));
        let row = |(result, blocks): (&'a ScenarioResult, &Blocks)| Row {
            name: &result.name,
            kernel: &result.kernel,
            repeat: result.repeat,
            status: result.status.to_string(),
            seconds: result.seconds,
            claim: shortened(&result.summary),
            reason: shortened(&result.reason),
            events: blocks.events,
            again: again(result),
        };
        List {
            run: &results.run,
            host: &results.host,
            qemu: &results.qemu.version,
            kernels: &results.kernels,
            directory: name.unwrap_or_default().to_string_lossy().into_owned(),
            statuses: Status::ALL.iter().map(|status| (status.to_string(), status.is_good())).collect(),
            without_timeline: without,
            results: results.scenarios.iter().zip(blocks).map(row).collect(),
        }
    }
}

/// The first line, and no more of it than a list has room for.
fn shortened(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(LINE_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}
