//! A report as a page of Markdown, for the summary of a CI run: what to look at first.

use super::{Results, ScenarioResult, SinceLast, summary};
use crate::verdict::Status;
use std::fmt::Write as _;

/// The most failures that have a line of their own.
const FAILURES_SHOWN: usize = 300;

/// The most characters of a reason in a table.
const REASON_SHOWN: usize = 240;

/// What a page is made of.
pub struct Page<'a> {
    /// What there is to report.
    pub results: &'a Results,
    /// Why it is not the whole, a sentence each.
    pub lacking: &'a [String],
    /// What is new since the last report, if there is one.
    pub since: Option<&'a SinceLast>,
    /// The command that runs a scenario again as it failed.
    pub reproducer: &'a dyn Fn(&ScenarioResult) -> String,
}

/// The page: what is lacking, what is new, a table of all failures, and one of the kernels.
pub fn markdown(page: &Page<'_>) -> String {
    let mut text = format!("## ftrace-lab: {}\n", summary(page.results));
    if !page.lacking.is_empty() {
        text.push_str("\n**This is not the whole:**\n\n");
        list(&mut text, page.lacking.iter().cloned());
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

fn news(text: &mut String, since: &SinceLast) {
    let groups = [
        ("Passed the last time, and not now", &since.regressed),
        ("Mended since the last time", &since.mended),
        ("Passed the last time, and did not run now", &since.gone),
    ];
    for (title, cases) in groups.into_iter().filter(|(_, cases)| !cases.is_empty()) {
        line(text, format_args!("\n**{title}:**\n"));
        list(text, cases.iter().map(|(name, kernel)| format!("{name} on {kernel}")));
    }
    if groups.iter().all(|(_, cases)| cases.is_empty()) {
        text.push_str("\nNothing is new since the last time.\n");
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
    text.push_str("\n| | scenario | kernel | what happened | again |\n|---|---|---|---|---|\n");
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
                code(&(page.reproducer)(result))
            ),
        );
    }
    let more = failures.len().saturating_sub(FAILURES_SHOWN);
    if more > 0 {
        line(text, format_args!("\nand {more} more, which `results.json` has"));
    }
}

/// A line a kernel: how many of each status, and how long they took.
fn kernels(text: &mut String, results: &Results) {
    let shown: Vec<_> = Status::ALL.into_iter().filter(|status| results.count(*status) > 0).collect();
    text.push_str("\n| kernel | source |");
    shown.iter().for_each(|status| text.push_str(&format!(" {status} |")));
    text.push_str(" seconds |\n|---|---|");
    text.push_str(&"---|".repeat(shown.len() + 1));
    text.push('\n');
    for kernel in &results.kernels {
        let of = || results.scenarios.iter().filter(|result| result.kernel == kernel.name);
        let counts = shown.iter().map(|status| of().filter(|result| result.status == *status).count());
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

/// Text that a guest may have had a say in, as Markdown that shows just that text: no markup, no
/// link, no cell of a table.
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

/// A command as code in a cell of a table.
fn code(command: &str) -> String {
    let plain: String =
        command.chars().map(|c| if c.is_control() || c == '`' { '\u{fffd}' } else { c }).collect();
    format!("`{}`", plain.replace('|', "\\|"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{result, results};

    fn page(results: &Results, since: Option<&SinceLast>) -> String {
        let reproducer = |result: &ScenarioResult| format!("again {}", result.name);
        markdown(&Page { results, lacking: &["part 2/2 is missing".into()], since, reproducer: &reproducer })
    }

    #[test]
    fn failures_stand_first_and_new_ones_before_them() {
        let failed =
            |name| ScenarioResult { reason: "found 3 | not 5\nmore".into(), ..result(name, Status::Failed) };
        let results = results(vec![result("fine", Status::Passed), failed("a"), failed("b")]);
        let case = |name: &str| (name.to_owned(), "6.12".to_owned());
        let since = SinceLast { regressed: vec![case("b")], ..SinceLast::default() };
        let text = page(&results, Some(&since));
        let lines: Vec<_> = text.lines().filter(|line| line.starts_with("| ")).collect();
        assert_eq!(lines[1], "| failed, **new** | b | 6.12 | found 3 \\| not 5 | `again b` |");
        assert_eq!(lines[2], "| failed | a | 6.12 | found 3 \\| not 5 | `again a` |");
        assert!(
            text.starts_with("## ftrace-lab: 1 passed, 2 failed in 1.0 s\n\n**This is not the whole:**"),
            "{text}"
        );
        assert!(!text.contains("fine"), "{text}");
    }

    #[test]
    fn what_a_guest_says_is_no_markup() {
        assert_eq!(escaped("<b>[x](y)|`\x1b"), "&lt;b&gt;\\[x\\](y)\\|\\`\u{fffd}");
        assert_eq!(code("a`|\n"), "`a\u{fffd}\\|\u{fffd}`");
        assert_eq!(shortened(&"ä".repeat(300)).chars().count(), REASON_SHOWN + 1);
    }
}
