//! `report.html`: a run in one file that needs no network.
//!
//! The page consists of a shell with style and scripts, the list of all results as JSON, and two packed
//! blocks per result, unpacked when the result is opened: its details, and the events of its trace. All
//! guest output is data, shown as plain text only.
//!
//! The size of the page and the number of events per result are limited. Failures take precedence. The
//! page says what is omitted, and where to find it.

mod again;
mod console;
mod coverage;
mod details;
mod list;
mod listing;
mod pack;
mod timeline;

use crate::{
    context::Lab,
    host::{beneath::directory_beneath, whole::write_whole},
    results::{Results, ScenarioResult},
};
use anyhow::{Error, Result};
pub(crate) use pack::Hash;

use coverage::Summary;
use list::List;
use pack::{json, packed};
use std::{
    fmt::Write as _,
    io,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// The report's file in a run's directory.
pub const REPORT: &str = "report.html";

/// The maximum number of bytes of packed blocks in a page.
const BLOCKS_MAX: usize = 18 << 20;

const SHELL: &str = include_str!("shell.html");
/// The colours and elements of every page.
pub(crate) const BASE_STYLE: &str = include_str!("base.css");
const STYLE: &str = concat!(include_str!("base.css"), include_str!("style.css"));
/// The scripts, in the order in which they run.
const SCRIPTS: [&str; 5] = [
    include_str!("data.js"),
    include_str!("timeline.js"),
    include_str!("events.js"),
    include_str!("details.js"),
    include_str!("report.js"),
];

/// Writes `report.html` for a run, into its directory `run`, which will have the name of `target`, and the pages
/// of its coverage.
pub fn write_html(results: &Results, run: &Path, target: &Path, lab: Option<&Lab>) -> Result<()> {
    let coverage = lab.map(|lab| coverage::write_pages(lab, results, run)).transpose()?.unwrap_or_default();
    write_whole(&run.join(REPORT), html(results, run, target, &coverage)?)
}

/// The packed blocks of one result.
#[derive(Default)]
struct Blocks {
    details: String,
    timeline: String,
    /// The number of events in the trace; `None` without a trace.
    events: Option<u64>,
}

impl Blocks {
    fn bytes(&self) -> usize {
        self.details.len() + self.timeline.len()
    }
}

fn html(results: &Results, run: &Path, target: &Path, coverage: &Summary) -> Result<String> {
    let mut blocks = all_blocks(results, run)?;
    let skipped = results.scenarios.iter().zip(&blocks);
    let skipped = skipped.filter(|(result, block)| block.details.is_empty() && !result.directory.is_empty());
    let skipped = skipped.count();
    let without = skipped + fit(results, &mut blocks, BLOCKS_MAX);
    let list = List::of(results, target, &blocks, without, coverage);
    let script = SCRIPTS.join("\n");
    let mut data = String::new();
    for (index, block) in blocks.iter().enumerate() {
        for (kind, text) in [("details", &block.details), ("timeline", &block.timeline)] {
            if !text.is_empty() {
                // Writing to a string does not fail.
                let _ = writeln!(data, "<script type=\"text/plain\" id=\"{kind}-{index}\">{text}</script>");
            }
        }
    }
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data:; base-uri 'none'; form-action 'none'",
        Hash::of(&script),
        Hash::of(STYLE)
    );
    Ok(filled(&[
        ("policy", &policy),
        ("style", STYLE),
        ("list", &json(&list)?),
        ("script", &script),
        ("data", &data),
    ]))
}

/// Fills the placeholders of the shell. Inserted text is not searched for placeholders.
fn filled(parts: &[(&str, &str)]) -> String {
    let mut page =
        String::with_capacity(SHELL.len() + parts.iter().map(|(_, text)| text.len()).sum::<usize>());
    let mut rest = SHELL;
    for (name, text) in parts {
        let (before, after) = rest.split_once(&format!("{{{name}}}")).unwrap_or((rest, ""));
        page.push_str(before);
        page.push_str(text);
        rest = after;
    }
    page + rest
}

/// Drops blocks that do not fit into `most` bytes: timelines first, then details. Returns the number of
/// timelines dropped.
fn fit(results: &Results, blocks: &mut [Blocks], most: usize) -> usize {
    let (mut left, mut without) = (most, 0);
    for &index in &urgency(results) {
        let block = &mut blocks[index];
        if block.bytes() > left {
            without += usize::from(!block.timeline.is_empty());
            block.timeline.clear();
        }
        if block.bytes() > left {
            block.details.clear();
        }
        left -= block.bytes();
    }
    without
}

/// Returns the indices of the results, failures first.
fn urgency(results: &Results) -> Vec<usize> {
    let mut order: Vec<usize> = (0..results.scenarios.len()).collect();
    order.sort_by_key(|&index| results.scenarios[index].status.is_good());
    order
}

/// Packs the blocks of all results, on all CPUs, until the page is full.
fn all_blocks(results: &Results, run: &Path) -> Result<Vec<Blocks>> {
    let order = urgency(results);
    let (next, used) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let done = Mutex::new(Vec::with_capacity(order.len()));
    let worker = || -> Result<()> {
        while let Some(&index) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let full = used.load(Ordering::Relaxed) > BLOCKS_MAX;
            let blocks = blocks(results, &results.scenarios[index], run, full)?;
            used.fetch_add(blocks.bytes(), Ordering::Relaxed);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((index, blocks));
        }
        Ok(())
    };
    thread::scope(|scope| {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..cpus).map(|_| scope.spawn(worker)).collect();
        let ends = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| anyhow::bail!("packing the report panicked")));
        ends.collect::<Vec<_>>().into_iter().collect::<Result<()>>()
    })?;
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    Ok(done.into_iter().map(|(_, blocks)| blocks).collect())
}

fn blocks(results: &Results, result: &ScenarioResult, run: &Path, full: bool) -> Result<Blocks> {
    if full {
        // Those of more urgent results take all of the page.
        return Ok(Blocks::default());
    }
    let (place, closed) = split(place(result, run).map_err(Error::from));
    let (trace, unread) = split(place.as_deref().map_or(Ok(None), timeline::open));
    let drawn = match trace.as_ref().map(timeline::timeline) {
        Some(Ok(timeline)) => Ok(Some(timeline)),
        Some(Err(error)) => Err(format!("{error:#}")),
        None => Ok(None),
    };
    let note = closed.or(unread).or(drawn.as_ref().err().cloned());
    let details = details::details(results, result, place.as_deref(), trace.as_ref(), note);
    let drawn = drawn.ok().flatten();
    Ok(Blocks {
        details: packed(&serde_json::to_vec(&details)?)?,
        events: drawn.as_ref().map(|(_, events)| *events),
        timeline: drawn.map(|(bytes, _)| packed(&bytes)).transpose()?.unwrap_or_default(),
    })
}

/// Returns the directory of a result, if it has one.
fn place(result: &ScenarioResult, run: &Path) -> io::Result<Option<PathBuf>> {
    if result.directory.is_empty() {
        return Ok(None);
    }
    match directory_beneath(run, &result.directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        place => place.map(Some),
    }
}

/// Splits a result into its value and its error as text.
fn split<T>(result: Result<Option<T>>) -> (Option<T>, Option<String>) {
    result.map_or_else(|error| (None, Some(format!("{error:#}"))), |value| (value, None))
}

#[cfg(test)]
mod tests;
