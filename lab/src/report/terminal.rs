//! What a person sees of a run, on stdout.

use super::{Results, ScenarioResult};
use crate::{
    stored::TRACE,
    verdict::{Outcome, OutcomeStatus, Status},
};
use std::{
    env,
    fmt::Write as _,
    io::{IsTerminal, stdout},
    path::Path,
};

/// How results are shown.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    /// Colours, where stdout is a terminal and NO_COLOR is not set.
    colours: bool,
    /// Steps and expectations that held, too.
    verbose: bool,
}

impl Terminal {
    /// For this process's stdout.
    pub fn new(verbose: bool) -> Terminal {
        let wanted = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Terminal { colours: wanted && stdout().is_terminal(), verbose }
    }

    /// One result: a line, and what a failure needs to be understood below it.
    pub fn result(&self, result: &ScenarioResult, run: &Path) -> String {
        let status = self.coloured(result.status, &format!("{:<12}", result.status.to_string()));
        let mut text =
            format!("{status} {} on {} ({:.2} s)\n", result.label(), result.kernel, result.seconds);
        let failed = !matches!(result.status, Status::Passed | Status::Unsupported);
        // What is broken stands below in full; the reason only says it again.
        let told = result.steps.iter().any(|step| !step.passed)
            || result.expectations.iter().any(|outcome| outcome.status != OutcomeStatus::Passed);
        let told = told && matches!(result.status, Status::Failed | Status::Inconclusive)
            || result.splats.iter().any(|splat| splat.sentence() == result.reason);
        if !told {
            indent(&mut text, 2, &result.reason);
        }
        for (number, step) in result.steps.iter().enumerate() {
            if self.verbose || !step.passed {
                let mark = if step.passed { "held" } else { "broken" };
                indent(&mut text, 2, &format!("step {} {mark}: {}", number + 1, step.text));
                indent(&mut text, 4, &step.detail);
            }
            if self.verbose {
                for case in &step.cases {
                    indent(&mut text, 4, &case.to_string());
                }
            }
        }
        for outcome in &result.expectations {
            if self.verbose || outcome.status != OutcomeStatus::Passed {
                text.push_str(&self.outcome(outcome));
            }
        }
        for splat in result.splats.iter().filter(|splat| self.verbose || !splat.allowed) {
            indent(&mut text, 2, &splat.to_string());
        }
        for stack in &result.stacks {
            indent(&mut text, 2, &stack.to_string());
        }
        if self.verbose {
            for left in &result.left_behind {
                indent(&mut text, 2, &format!("left behind: {left}"));
            }
        }
        for note in &result.notes {
            indent(&mut text, 2, &format!("note: {note}"));
        }
        if failed && !result.directory.is_empty() {
            let directory = run.join(&result.directory);
            indent(&mut text, 2, &format!("files: {}", directory.display()));
            if let Some(vmcore) = &result.vmcore {
                let path = directory.join(vmcore);
                indent(&mut text, 2, &format!("memory, for crash and drgn: {}", path.display()));
            }
            if let Some(reproducer) = &result.reproducer {
                let path = directory.join(reproducer);
                indent(&mut text, 2, &format!("again: cargo xtask lab repro {}", path.display()));
            }
            if directory.join(TRACE).is_file() {
                indent(&mut text, 2, &format!("whole trace: cargo xtask lab trace {}", directory.display()));
            }
        }
        text
    }

    /// What an expectation came to.
    pub fn outcome(&self, outcome: &Outcome) -> String {
        let mut text = String::new();
        indent(&mut text, 2, &format!("expectation {}: {}", held_or_not(outcome.status), outcome.text));
        indent(&mut text, 4, &outcome.detail);
        text
    }

    fn coloured(&self, status: Status, text: &str) -> String {
        let colour = match status {
            Status::Passed => "32",
            Status::Unsupported => "33",
            _ => "31",
        };
        if self.colours { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn held_or_not(status: OutcomeStatus) -> &'static str {
    match status {
        OutcomeStatus::Passed => "held",
        OutcomeStatus::Failed => "broken",
        OutcomeStatus::Inconclusive => "inconclusive",
    }
}

/// The last line of a run: how many of each status.
pub fn summary(results: &Results) -> String {
    let mut text = String::new();
    for status in Status::ALL {
        let count = results.count(status);
        if count > 0 || status == Status::Passed || status == Status::Failed {
            let comma = if text.is_empty() { "" } else { ", " };
            // Writing to a string does not fail.
            let _ = write!(text, "{comma}{count} {status}");
        }
    }
    format!("{text} in {:.1} s", results.run.seconds)
}

/// Lines without what a terminal would obey.
pub(crate) fn printable(lines: &str) -> String {
    lines.chars().map(|c| if c.is_control() && !matches!(c, '\t' | '\n') { '\u{fffd}' } else { c }).collect()
}

fn indent(text: &mut String, by: usize, lines: &str) {
    for line in printable(lines).lines() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{:by$}{line}", "");
    }
}
