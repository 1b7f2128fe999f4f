//! The unpacked data of the page: the run, its kernels, and a line per result.

use super::{Blocks, again::again, coverage::Summary};
use crate::results::{Results, ScenarioResult, Status};
use serde::Serialize;
use std::path::Path;

/// The maximum number of characters of a summary or a reason in the list.
const LINE_MAX: usize = 300;

/// The data of the list.
#[derive(Serialize)]
pub(super) struct List<'a> {
    run: &'a crate::results::Run,
    host: &'a crate::results::Host,
    qemu: &'a str,
    kernels: &'a [crate::results::KernelInfo],
    /// The name of the run's directory, which links are relative to.
    directory: String,
    /// All statuses, and whether each of them is good: not a failure of the run.
    statuses: Vec<(String, bool)>,
    /// The number of results whose timeline is omitted to limit the size of the page.
    without_timeline: usize,
    coverage: &'a Summary,
    results: Vec<Row<'a>>,
}

/// One result.
#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    kernel: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    repeat: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<u32>,
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
    pub(super) fn of(
        results: &'a Results,
        run: &Path,
        blocks: &[Blocks],
        without: usize,
        coverage: &'a Summary,
    ) -> List<'a> {
        let name = run.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_owned()));
        let row = |(result, blocks): (&'a ScenarioResult, &Blocks)| Row {
            name: &result.name,
            kernel: &result.kernel,
            repeat: result.repeat,
            retry: result.retry,
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
            coverage,
            results: results.scenarios.iter().zip(blocks).map(row).collect(),
        }
    }
}

/// Returns the first line, truncated to [`LINE_MAX`] characters.
fn shortened(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(LINE_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}
