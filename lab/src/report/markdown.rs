//! A report as a Markdown page, for the summary of a CI run: failures and changes first.

use super::summary;
use crate::{
    results::{Delta, Gap, Results, ScenarioResult, Status},
    words::called,
};
use std::fmt::Write as _;

/// The maximum number of failures listed.
const FAILURES_SHOWN: usize = 300;

/// The maximum number of missing parts listed.
const GAPS_SHOWN: usize = 100;

/// The maximum number of characters of a reason in the table.
const REASON_SHOWN: usize = 240;

/// The contents of a page.
pub struct Page<'a> {
    /// The results to report.
    pub results: &'a Results,
    /// Why they are incomplete.
    pub gaps: &'a [Gap],
    /// The changes since the last report, if there is one.
    pub since: Option<&'a Delta>,
    /// Returns the command that reproduces a failure.
    pub reproducer: &'a dyn Fn(&ScenarioResult) -> String,
}

/// Returns the page: what is missing, what changed, a table of failures, and one of kernels.
pub fn markdown(page: &Page<'_>) -> String {
    let mut text = format!("## ftrace-lab: {}\n", summary(page.results));
    if !page.gaps.is_empty() {
        text.push_str("\n**Incomplete:**\n\n");
        for Gap { what, again } in page.gaps.iter().take(GAPS_SHOWN) {
            let run = |again| code(&format!("{} {again}", called("cargo xtask lab run")));
            let run = again.as_ref().map(|again| format!("; run it: {}", run(again)));
            line(&mut text, format_args!("- {}{}", escaped(what), run.unwrap_or_default()));
        }
        let more = page.gaps.len().saturating_sub(GAPS_SHOWN);
        if more > 0 {
            line(&mut text, format_args!("- and {more} more"));
        }
    }
    if let Some(since) = page.since {
        news(&mut text, since);
    }
    failures(&mut text, page);
    kernels(&mut text, page.results);
    text
}

fn list(text: &mut String, items: impl Iterator<Item = String>) {
    for item in items {
        line(text, format_args!("- {}", escaped(&item)));
    }
}

fn news(text: &mut String, since: &Delta) {
    let groups = [
        ("Regressed since the last report", &since.regressed),
        ("Fixed since the last report", &since.fixed),
        ("Passed in the last report, did not run now", &since.gone),
    ];
    for (title, cases) in groups.into_iter().filter(|(_, cases)| !cases.is_empty()) {
        line(text, format_args!("\n**{title}:**\n"));
        list(text, cases.iter().map(|(name, kernel)| format!("{name} on {kernel}")));
    }
    if groups.iter().all(|(_, cases)| cases.is_empty()) {
        text.push_str("\nNo changes since the last report.\n");
    }
}

fn failures(text: &mut String, page: &Page<'_>) {
    let mut failures: Vec<_> =
        page.results.scenarios.iter().filter(|result| !result.status.is_good()).collect();
    if failures.is_empty() {
        return;
    }
    let regressed = |result: &ScenarioResult| {
        let case = (result.name.clone(), result.kernel.clone());
        page.since.is_some_and(|since| since.regressed.contains(&case))
    };
    failures.sort_by_key(|result| (!regressed(result), result.label(), result.kernel.clone()));
    text.push_str("\n| | scenario | kernel | reason | reproduce |\n|---|---|---|---|---|\n");
    for result in failures.iter().take(FAILURES_SHOWN) {
        let new = if regressed(result) { ", **new**" } else { "" };
        line(
            text,
            format_args!(
                "| {}{new} | {} | {} | {} | {} |",
                result.status,
                escaped(&result.label()),
                escaped(&result.kernel),
                escaped(&shortened(&result.reason)),
                cell(&(page.reproducer)(result))
            ),
        );
    }
    let more = failures.len().saturating_sub(FAILURES_SHOWN);
    if more > 0 {
        line(text, format_args!("\nand {more} more in `results.json`"));
    }
}

/// Writes one line per kernel: the number of results of each status, and the time they took.
fn kernels(text: &mut String, results: &Results) {
    let shown: Vec<_> = Status::ALL.into_iter().filter(|status| results.count(*status) > 0).collect();
    text.push_str("\n| kernel | source |");
    shown.iter().for_each(|status| text.push_str(&format!(" {status} |")));
    text.push_str(" seconds |\n|---|---|");
    text.push_str(&"---|".repeat(shown.len() + 1));
    text.push('\n');
    for kernel in &results.kernels {
        let of = || results.scenarios.iter().filter(|result| result.kernel == kernel.name);
        let first = || results.first_tries().filter(|result| result.kernel == kernel.name);
        let counts = shown.iter().map(|status| first().filter(|result| result.status == *status).count());
        let counts: String = counts.map(|count| format!(" {count} |")).collect();
        let seconds: f64 = of().map(|result| result.seconds).sum();
        let (name, source) = (escaped(&kernel.name), escaped(&kernel.source_version));
        line(text, format_args!("| {name} | {source} |{counts} {seconds:.1} |"));
    }
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{arguments}");
}

fn shortened(reason: &str) -> String {
    let line = reason.lines().next().unwrap_or_default();
    match line.char_indices().nth(REASON_SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// Escapes text that may come from a guest, so that Markdown shows it verbatim: no markup, no links, no
/// table cells.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '\n' | '\t' => escaped.push(' '),
            c if c.is_control() => escaped.push('\u{fffd}'),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '~' | '#' | '!' => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Formats a command as code.
fn code(command: &str) -> String {
    let plain: String =
        command.chars().map(|c| if c.is_control() || c == '`' { '\u{fffd}' } else { c }).collect();
    format!("`{plain}`")
}

/// Formats a command as code in a table cell.
fn cell(command: &str) -> String {
    code(command).replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::fixture::{result, results};

    fn page(results: &Results, since: Option<&Delta>) -> String {
        let reproducer = |result: &ScenarioResult| format!("again {}", result.name);
        let gap = Gap { what: "part 2/2 is missing".into(), again: Some("--shard 2/2".into()) };
        markdown(&Page { results, gaps: &[gap], since, reproducer: &reproducer })
    }

    #[test]
    fn failures_stand_first_and_new_ones_before_them() {
        let failed =
            |name| ScenarioResult { reason: "found 3 | not 5\nmore".into(), ..result(name, Status::Failed) };
        let results = results(vec![result("fine", Status::Passed), failed("a"), failed("b")]);
        let case = |name: &str| (name.to_owned(), "6.12".to_owned());
        let since = Delta { regressed: vec![case("b")], ..Delta::default() };
        let text = page(&results, Some(&since));
        let lines: Vec<_> = text.lines().filter(|line| line.starts_with("| ")).collect();
        assert_eq!(lines[1], "| failed, **new** | b | 6.12 | found 3 \\| not 5 | `again b` |");
        assert_eq!(lines[2], "| failed | a | 6.12 | found 3 \\| not 5 | `again a` |");
        assert!(text.starts_with("## ftrace-lab: 1 passed, 2 failed in 1.0 s\n\n**Incomplete:**"), "{text}");
        let gap = "- part 2/2 is missing; run it: `cargo xtask lab run --shard 2/2`\n";
        assert!(text.contains(gap), "{text}");
        assert!(!text.contains("fine"), "{text}");
    }

    #[test]
    fn what_a_guest_says_is_no_markup() {
        assert_eq!(escaped("<b>[x](y)|`\x1b"), "&lt;b&gt;\\[x\\](y)\\|\\`\u{fffd}");
        assert_eq!(cell("a`|\n"), "`a\u{fffd}\\|\u{fffd}`");
        assert_eq!(shortened(&"ä".repeat(300)).chars().count(), REASON_SHOWN + 1);
    }
}
