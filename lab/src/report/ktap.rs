//! `results.ktap`: KTAP version 1, for the tools of kernel developers. One test per kernel, a subtest per
//! scenario, and below that one per test that its steps ran.

use crate::{
    host::whole::write_whole,
    results::{Results, ScenarioResult, Status},
    selftest::{Case, CaseStatus},
};
use anyhow::Result;
use std::{fmt::Write as _, path::Path};

/// The maximum number of lines of a reason.
const LINES_MAX: usize = 100;

/// Writes `results.ktap`.
pub fn write_ktap(results: &Results, run: &Path) -> Result<()> {
    write_whole(&run.join("results.ktap"), ktap(results))
}

/// A test line: the name, whether it is ok, and the directive after `#`.
struct Line<'a> {
    name: &'a str,
    ok: bool,
    directive: String,
}

fn ktap(results: &Results) -> String {
    let mut text = String::from("KTAP version 1\n");
    line(&mut text, 0, format_args!("1..{}", results.kernels.len()));
    for (number, kernel) in (1..).zip(&results.kernels) {
        let scenarios: Vec<_> =
            results.scenarios.iter().filter(|result| result.kernel == kernel.name).collect();
        let good = scenarios.iter().all(|result| result.status.is_good());
        // Parsers reject an empty list of subtests.
        let directive =
            if scenarios.is_empty() { "SKIP nothing ran on it".to_owned() } else { String::new() };
        if !scenarios.is_empty() {
            open(&mut text, 1, &kernel.name, scenarios.len());
        }
        for (number, result) in (1..).zip(scenarios) {
            scenario(&mut text, number, result);
        }
        test(&mut text, 0, number, &Line { name: &kernel.name, ok: good, directive });
    }
    text
}

/// Begins a list of subtests.
fn open(text: &mut String, depth: usize, name: &str, count: usize) {
    line(text, depth, format_args!("KTAP version 1"));
    line(text, depth, format_args!("# Subtest: {}", plain(name)));
    line(text, depth, format_args!("1..{count}"));
}

fn scenario(text: &mut String, number: usize, result: &ScenarioResult) {
    let label = result.label();
    let cases: Vec<&Case> = result.steps.iter().flat_map(|step| &step.cases).collect();
    if !cases.is_empty() {
        open(text, 2, &label, cases.len());
        for (number, case) in (1..).zip(cases) {
            reason(text, 2, &case.detail, case.status != CaseStatus::Passed);
            let directive = match case.status {
                CaseStatus::Skipped | CaseStatus::LeftOut | CaseStatus::KnownFailure => {
                    format!("SKIP {}: {}", case.status, first(&case.detail))
                }
                CaseStatus::TimedOut => "TIMEOUT".to_owned(),
                _ => String::new(),
            };
            test(text, 2, number, &Line { name: &case.name, ok: case.status.is_good(), directive });
        }
    }
    reason(text, 1, &format!("{}: {}", result.status, result.reason), !result.status.is_good());
    let directive = match result.status {
        // SKIP is the only directive that parsers accept for an unsupported test or a known failure.
        Status::Unsupported | Status::KnownBug => {
            format!("SKIP {}: {}", result.status, first(&result.reason))
        }
        Status::Hang => "TIMEOUT".to_owned(),
        _ => String::new(),
    };
    test(text, 1, number, &Line { name: &label, ok: result.status.is_good(), directive });
}

fn test(text: &mut String, depth: usize, number: usize, test: &Line<'_>) {
    let ok = if test.ok { "ok" } else { "not ok" };
    let directive = plain(&test.directive);
    let directive = if directive.is_empty() { directive } else { format!(" # {directive}") };
    line(text, depth, format_args!("{ok} {number} {}{directive}", plain(test.name)));
}

/// Writes why a test is not ok, as diagnostic lines before its result.
fn reason(text: &mut String, depth: usize, reason: &str, told: bool) {
    for reason in reason.lines().take(if told { LINES_MAX } else { 0 }) {
        line(text, depth, format_args!("# {}", plain(reason)));
    }
}

fn first(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Returns the text without control characters and without `#`, which would begin a directive.
fn plain(text: &str) -> String {
    let plain = |c: char| match c {
        '#' => '♯',
        c if c.is_control() => ' ',
        c => c,
    };
    text.chars().map(plain).collect::<String>().trim().to_owned()
}

fn line(text: &mut String, depth: usize, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{:width$}{arguments}", "", width = 4 * depth);
}

#[cfg(test)]
#[path = "ktap_tests.rs"]
mod tests;
