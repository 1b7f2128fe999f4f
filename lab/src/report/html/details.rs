//! The details of one result, which the page shows when it is opened.

use super::{
    console::{self, Log},
    listing::{self, Listing},
};
use crate::{
    host::beneath::open_beneath,
    results::{Outcome, OutcomeStatus, Results, ScenarioResult, StepResult},
    splat::Splat,
    words::printable,
};
use serde::Serialize;
use std::{
    fs,
    io::{Read, Seek, SeekFrom},
    path::Path,
};
use trace::Trace;

/// The maximum number of bytes of one output file, and of all output files of a result.
const OUTPUT_MAX: u64 = 16 << 10;
const OUTPUTS_MAX: usize = 128 << 10;

/// The maximum number of bytes read from the end of a log.
const LOG_READ_MAX: u64 = 512 << 10;

/// The maximum number of bytes of a reason or a detail.
const DETAIL_MAX: usize = 16 << 10;

/// The maximum number of files listed.
const FILES_MAX: usize = 500;

/// The maximum number of tests listed per step.
const CASES_MAX: usize = 2000;

/// The details of one result.
#[derive(Serialize)]
pub(super) struct Details {
    reason: String,
    expectations: Vec<Expectation>,
    steps: Vec<Step>,
    splats: Vec<Told>,
    stacks: Vec<Told>,
    left_behind: Vec<String>,
    notes: Vec<String>,
    logs: Vec<Log>,
    listings: Vec<Listing>,
    /// The directory, relative to the report's, and the name and size in bytes of each file in it.
    directory: String,
    files: Vec<(String, u64)>,
    /// Whether there are more files than listed.
    more_files: bool,
    kernel: String,
    /// Why there is no timeline for an existing trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_timeline: Option<String>,
}

#[derive(Serialize)]
struct Expectation {
    status: &'static str,
    text: String,
    detail: String,
}

#[derive(Serialize)]
struct Step {
    passed: bool,
    text: String,
    detail: String,
    seconds: f64,
    outputs: Vec<Output>,
    cases: Vec<[String; 4]>,
}

/// An output file of a step.
#[derive(Serialize)]
struct Output {
    name: String,
    text: String,
    /// The number of bytes omitted before `text`.
    left_out: u64,
}

/// A splat or the backtrace of a task, with decoded frames.
#[derive(Serialize)]
struct Told {
    kind: String,
    sentence: String,
    fingerprint: String,
    task: String,
    allowed: bool,
    frames: Vec<String>,
}

/// Collects the details of a result. Files that cannot be read are omitted.
pub(super) fn details(
    results: &Results,
    result: &ScenarioResult,
    place: Option<&Path>,
    trace: Option<&Trace>,
    no_timeline: Option<String>,
) -> Details {
    let mut left = OUTPUTS_MAX;
    let (files, more_files) = place.map(files).unwrap_or_default();
    let kernel = results.kernels.iter().find(|kernel| kernel.name == result.kernel);
    Details {
        reason: capped(&result.reason),
        expectations: result.expectations.iter().map(expectation).collect(),
        steps: result.steps.iter().map(|found| step(found, place, &mut left)).collect(),
        splats: result.splats.iter().map(told).collect(),
        stacks: result.stacks.iter().map(told).collect(),
        left_behind: result.left_behind.iter().map(|left| capped(left)).collect(),
        notes: result.notes.iter().map(|note| capped(note)).collect(),
        logs: place.map(|place| logs(result, place)).unwrap_or_default(),
        listings: place.map(|place| listing::listings(result, place, trace)).unwrap_or_default(),
        directory: result.directory.clone(),
        files,
        more_files,
        kernel: kernel.map(|kernel| kernel.source_version.clone()).unwrap_or_default(),
        no_timeline,
    }
}

fn expectation(outcome: &Outcome) -> Expectation {
    let status = match outcome.status {
        OutcomeStatus::Passed => "held",
        OutcomeStatus::Failed => "broken",
        OutcomeStatus::Inconclusive => "inconclusive",
    };
    Expectation { status, text: capped(&outcome.text), detail: capped(&outcome.detail) }
}

fn step(found: &StepResult, place: Option<&Path>, left: &mut usize) -> Step {
    let mut outputs = Vec::new();
    for name in found.output.iter().filter(|name| !listing::is_listing(name)) {
        let Some(place) = place else { break };
        outputs.extend(output(place, name, left));
    }
    let case = |case: &crate::selftest::Case| {
        [case.name.clone(), case.status.to_string(), format!("{:.1}", case.seconds), capped(&case.detail)]
    };
    Step {
        passed: found.passed,
        text: capped(&found.text),
        detail: capped(&found.detail),
        seconds: found.seconds,
        outputs,
        cases: found.cases.iter().take(CASES_MAX).map(case).collect(),
    }
}

/// Reads the end of a file in a result's directory.
fn output(place: &Path, name: &str, left: &mut usize) -> Option<Output> {
    let (text, left_out) = tail(place, name, OUTPUT_MAX.min(*left as u64))?;
    *left = left.saturating_sub(text.len());
    Some(Output { name: name.to_owned(), text: printable(&text), left_out })
}

/// Returns the last `most` bytes of a file, and the number of bytes before them.
fn tail(place: &Path, name: &str, most: u64) -> Option<(String, u64)> {
    let mut file = open_beneath(place, name).ok()?;
    let before = file.metadata().ok()?.len().saturating_sub(most);
    file.seek(SeekFrom::Start(before)).ok()?;
    let mut data = Vec::new();
    file.take(most).read_to_end(&mut data).ok()?;
    Some((String::from_utf8_lossy(&data).replace('\r', ""), before))
}

/// Returns the kernel log, and the console if it has more.
fn logs(result: &ScenarioResult, place: &Path) -> Vec<Log> {
    let good = result.status.is_good();
    let read = |name: &str| tail(place, name, LOG_READ_MAX).map(|(text, _)| printable(&text));
    let mut logs = Vec::new();
    let kernel = read("kernel.log").unwrap_or_default();
    let said = |text: &str| text.lines().any(|line| !line.is_empty() && !line.starts_with("ftrace-lab: "));
    if let Some(console) = read("console.txt").filter(|text| said(text)) {
        logs.push(console::log("console.txt", &console, &result.splats, good));
        // The log of a guest that died is its console.
        if kernel.trim() == console.trim() {
            return logs;
        }
    }
    if !kernel.is_empty() {
        logs.push(console::log("kernel.log", &kernel, &result.splats, good));
    }
    logs
}

fn told(splat: &Splat) -> Told {
    Told {
        kind: splat.kind.clone(),
        sentence: capped(&splat.sentence()),
        fingerprint: splat.fingerprint.clone(),
        task: splat.task.clone(),
        allowed: splat.allowed,
        frames: splat.frames.iter().map(|frame| printable(frame.to_string().trim_end())).collect(),
    }
}

/// Returns the files below a result's directory, sorted by name, and whether there are more.
fn files(place: &Path) -> (Vec<(String, u64)>, bool) {
    let mut files = Vec::new();
    let mut inside = vec![place.to_owned()];
    while let Some(directory) = inside.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && inside.len() < FILES_MAX {
                inside.push(entry.path());
            } else if kind.is_file() && files.len() <= FILES_MAX {
                let bytes = entry.metadata().map(|file| file.len()).unwrap_or_default();
                let path = entry.path();
                let name = path.strip_prefix(place).unwrap_or(&path).to_string_lossy().into_owned();
                files.push((name, bytes));
            }
        }
    }
    files.sort();
    let more = files.len() > FILES_MAX;
    files.truncate(FILES_MAX);
    (files, more)
}

fn capped(text: &str) -> String {
    let text = printable(text);
    match (0..=DETAIL_MAX.min(text.len())).rev().find(|&end| text.is_char_boundary(end)) {
        Some(end) if end < text.len() => format!("{}… ({} bytes more)", &text[..end], text.len() - end),
        _ => text,
    }
}
