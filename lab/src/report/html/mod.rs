//! `report.html`: a run as one file that needs no network.
//!
//! A page of four parts: the shell with style and scripts, the list of all results as JSON, and for
//! each result two packed blocks that are not unpacked before somebody looks: what is known of it, and
//! the events of its trace. Everything of a guest is data there, and only ever shown as text.
//!
//! The page may have so many bytes, a result so many events. Failures are served first; what is cut says
//! so, and where the whole is.

mod again;
mod console;
mod details;
mod list;
mod listing;
mod pack;
mod timeline;

use super::{Results, ScenarioResult, place::write_whole};
use crate::stored::TRACE;
use anyhow::Result;
use list::List;
use pack::{Hash, json, packed};
use std::{
    fmt::Write as _,
    path::{Component, Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// The report's file in a run's directory.
pub const REPORT: &str = "report.html";

/// The most bytes of packed blocks in one page.
const BLOCKS_MAX: usize = 18 << 20;

const SHELL: &str = include_str!("shell.html");
const STYLE: &str = include_str!("style.css");
/// In the order in which they run.
const SCRIPTS: [&str; 5] = [
    include_str!("data.js"),
    include_str!("timeline.js"),
    include_str!("events.js"),
    include_str!("details.js"),
    include_str!("report.js"),
];

/// Writes `report.html` of a run whose other files are in `run`.
pub fn write_html(results: &Results, run: &Path) -> Result<()> {
    write_whole(&run.join(REPORT), html(results, run)?.as_bytes())
}

/// The blocks of one result, packed.
#[derive(Default)]
struct Blocks {
    details: String,
    timeline: String,
    /// How many events the trace has; absent if there is none.
    events: Option<u64>,
}

impl Blocks {
    fn bytes(&self) -> usize {
        self.details.len() + self.timeline.len()
    }
}

fn html(results: &Results, run: &Path) -> Result<String> {
    let mut blocks = all_blocks(results, run)?;
    let without = fit(results, &mut blocks, BLOCKS_MAX);
    let list = List::of(results, run, &blocks, without);
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

/// The shell with its places filled. What is put in is not looked through for places.
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

/// Leaves out what a page of so many bytes has no room for; gives back how many timelines that are.
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

/// The results, those first whose blocks matter most.
fn urgency(results: &Results) -> Vec<usize> {
    let mut order: Vec<usize> = (0..results.scenarios.len()).collect();
    order.sort_by_key(|&index| results.scenarios[index].status.is_good());
    order
}

/// Packs the blocks of all results, on all CPUs. One that comes after the page is full is not packed.
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
    let place = place(result, run);
    let (trace, unread) = match place.as_deref().map(|place| timeline::open(&place.join(TRACE))) {
        Some(Ok(trace)) => (trace, None),
        Some(Err(error)) => (None, Some(format!("{error:#}"))),
        None => (None, None),
    };
    let drawn = match trace.as_ref().filter(|_| !full).map(timeline::timeline) {
        Some(Ok(timeline)) => Ok(Some(timeline)),
        Some(Err(error)) => Err(format!("{error:#}")),
        None => Ok(None),
    };
    let note = unread.or(drawn.as_ref().err().cloned());
    let details = details::details(results, result, place.as_deref(), trace.as_ref(), note);
    let drawn = drawn.ok().flatten();
    Ok(Blocks {
        details: packed(&serde_json::to_vec(&details)?)?,
        events: drawn.as_ref().map(|(_, events)| *events),
        timeline: drawn.map(|(bytes, _)| packed(&bytes)).transpose()?.unwrap_or_default(),
    })
}

/// The directory of a result, if it has one and it is in the run's.
fn place(result: &ScenarioResult, run: &Path) -> Option<PathBuf> {
    let relative = Path::new(&result.directory);
    let inside = relative.components().all(|part| matches!(part, Component::Normal(_)));
    (inside && !result.directory.is_empty()).then(|| run.join(relative)).filter(|place| place.is_dir())
}

#[cfg(test)]
mod tests;
