//! Results as shown on stdout.

use crate::{
    results::{Outcome, OutcomeStatus, Results, ScenarioResult, Status, TRACE, Verdict},
    words::{called, printable},
};
use std::{
    env,
    fmt::Write as _,
    io::{IsTerminal, stdout},
    path::Path,
};

/// The format of results on a terminal.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    /// Whether to use colours: stdout is a terminal and NO_COLOR is unset or empty.
    colours: bool,
    /// Whether to show steps and expectations that held.
    verbose: bool,
}

impl Terminal {
    /// Returns the settings for this process's stdout.
    pub fn new(verbose: bool) -> Terminal {
        let wanted = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Terminal { colours: wanted && stdout().is_terminal(), verbose }
    }

    /// Returns the text for one result: a line, followed by the details of a failure.
    pub fn result(&self, result: &ScenarioResult, run: &Path) -> String {
        let status = self.coloured(result.status, &format!("{:<12}", result.status.to_string()));
        let mut text = format!(
            "{status} {} ({:.2} s)\n",
            one_line(format!("{} on {}", result.label(), result.kernel)),
            result.seconds
        );
        let failed = !result.status.is_good();
        // The reason only repeats broken checks and splats, which are shown in full below.
        let told = result.steps.iter().any(|step| !step.passed)
            || result.expectations.iter().any(|outcome| outcome.status != OutcomeStatus::Passed);
        let told = told && matches!(result.status, Status::Failed | Status::Inconclusive)
            || result.splats.iter().any(|splat| splat.sentence() == result.reason);
        if !told {
            indent(&mut text, 2, &result.reason);
        }
        // The reason already describes a known bug.
        let broken_shown = result.status != Status::KnownBug;
        for (number, step) in result.steps.iter().enumerate() {
            if self.verbose || !step.passed && broken_shown {
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
            if self.verbose || outcome.status != OutcomeStatus::Passed && broken_shown {
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
            text.push_str(&files(result, &run.join(&result.directory)));
        }
        text
    }

    /// Returns the result of an expectation as text.
    pub fn outcome(&self, outcome: &Outcome) -> String {
        let mut text = String::new();
        indent(&mut text, 2, &format!("expectation {}: {}", held_or_not(outcome.status), outcome.text));
        indent(&mut text, 4, &outcome.detail);
        text
    }

    /// Returns the expectations of a verdict, and its status and reason if anything else decided it.
    pub fn verdict(&self, verdict: &Verdict) -> String {
        let mut text: String = verdict.expectations.iter().map(|outcome| self.outcome(outcome)).collect();
        if *verdict != Verdict::of(verdict.expectations.clone()) {
            indent(&mut text, 2, &format!("{}: {}", verdict.status, verdict.reason));
        }
        text
    }

    fn coloured(&self, status: Status, text: &str) -> String {
        let colour = match status {
            Status::Passed => "32",
            Status::Unsupported | Status::KnownBug => "33",
            _ => "31",
        };
        if self.colours { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Returns the lines that name the files of a failure and the commands that read them.
fn files(result: &ScenarioResult, directory: &Path) -> String {
    let mut text = String::new();
    indent(&mut text, 2, &format!("files: {}", directory.display()));
    if let Some(vmcore) = &result.vmcore {
        let path = directory.join(vmcore);
        indent(&mut text, 2, &format!("vmcore: {}", path.display()));
    }
    if let Some(reproducer) = &result.reproducer {
        let path = directory.join(reproducer);
        indent(&mut text, 2, &format!("reproduce: {} {}", called("cargo xtask lab repro"), path.display()));
    }
    if directory.join(TRACE).is_file() {
        indent(
            &mut text,
            2,
            &format!("whole trace: {} {}", called("cargo xtask lab trace"), directory.display()),
        );
    }
    text
}

/// Makes a name printable that may come from another machine.
fn one_line(name: String) -> String {
    printable(name).replace('\n', "\u{fffd}")
}

fn held_or_not(status: OutcomeStatus) -> &'static str {
    match status {
        OutcomeStatus::Passed => "held",
        OutcomeStatus::Failed => "broken",
        OutcomeStatus::Inconclusive => "inconclusive",
    }
}

/// Returns the last line of a run: the number of results of each status, and of further tries.
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
    let again = results.scenarios.len() - results.first_tries().count();
    if again > 0 {
        let _ = write!(text, ", {again} tried again");
    }
    format!("{text} in {:.1} s", results.run.seconds)
}

fn indent(text: &mut String, by: usize, lines: &str) {
    for line in printable(lines).lines() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{:by$}{line}", "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::fixture;

    #[test]
    fn a_further_try_is_not_one_more_scenario() {
        let failed = fixture::result("a", Status::Failed);
        let again = crate::results::ScenarioResult { retry: Some(1), ..fixture::result("a", Status::Passed) };
        let results = fixture::results(vec![failed, again, fixture::result("b", Status::Passed)]);
        assert_eq!(summary(&results), "1 passed, 1 failed, 1 tried again in 1.0 s");
    }

    #[test]
    fn nothing_of_a_result_moves_the_cursor() {
        let mut result = fixture::result("a\u{1b}[2J\n::error::x", Status::Failed);
        result.reason = "b\u{9b}2J".into();
        let text = Terminal { colours: false, verbose: true }.result(&result, Path::new("results"));
        assert!(!text.contains(['\u{1b}', '\u{9b}']) && text.lines().count() == 2, "{text}");
    }
}
