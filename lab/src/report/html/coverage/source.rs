//! The page of a source file.

use super::{escaped, put, shares};
use crate::{
    coverage::{AnnotatedFile, AnnotatedLine},
    results::KernelInfo,
};

/// The maximum number of scenarios that are named for a line.
const NAMES_MAX: usize = 12;

/// Explains the colours.
const LEGEND: &str = "<p class=\"legend\"><span class=\"ran\">ran</span> <span class=\"never\">not run</span> \
    <span>no code</span> <span class=\"soft\">The number of scenarios that ran a line, or a group of \
    lines, precedes it; the tooltip names them, those that ran the least code first. \
    <code>all</code>: an empty scenario runs it, too.</span></p>\n";

/// Returns the page of a file at `path` below the directory of the pages, given its text.
pub(super) fn page(kernel: &KernelInfo, path: &str, file: &AnnotatedFile<'_>, text: &str) -> String {
    let name = &file.coverage.file;
    let up = "../".repeat(path.matches('/').count());
    let mut body = format!(
        "<header><div class=\"title\"><h1>{}</h1><p>{} ({})</p><a href=\"{up}index.html\">Files</a>\
         <a href=\"{up}../report.html\">Report</a></div>\n<p class=\"figures\">",
        escaped(name),
        escaped(&kernel.name),
        escaped(&kernel.source_version)
    );
    for (what, share) in shares(&file.coverage) {
        put(
            &mut body,
            format_args!("<span>{what} {} of {} ({} %)</span>", share.ran, share.all, share.percent()),
        );
    }
    body.push_str("</p>\n");
    if !file.never.is_empty() {
        let link = |(name, line): &(&str, u32)| format!("<a href=\"#L{line}\">{}</a>", escaped(name));
        let links: Vec<String> = file.never.iter().map(link).collect();
        put(&mut body, format_args!("<p>Functions that no scenario ran: {}</p>\n", links.join(", ")));
    }
    body.push_str(LEGEND);
    body.push_str("</header>\n<main class=\"scroll\"><table class=\"source\">\n");
    rows(&mut body, file, text);
    body.push_str("</table></main>\n");
    super::page(&format!("{name} on {}", kernel.name), &body)
}

/// Appends the lines. Neighbours that the same scenarios ran share a row.
fn rows(body: &mut String, file: &AnnotatedFile<'_>, text: &str) {
    let lines: Vec<(u32, &str)> = (1..).zip(text.lines()).collect();
    let starts = |number: u32| file.never.iter().any(|(_, line)| *line == number);
    let together = |(one, _): &(u32, &str), (next, _): &(u32, &str)| {
        file.lines.get(one) == file.lines.get(next) && !starts(*next)
    };
    for group in lines.chunk_by(together) {
        let Some((first, _)) = group.first() else { continue };
        match file.lines.get(first) {
            None => put(body, format_args!("<tr id=\"L{first}\"><td>")),
            Some(line) => start(body, *first, line),
        }
        body.push_str("<td>");
        group.iter().for_each(|(number, _)| put(body, format_args!("{number}\n")));
        body.push_str("<td>");
        group.iter().for_each(|(_, text)| put(body, format_args!("{}\n", escaped(text))));
    }
}

/// Appends the start of a row of lines with code.
fn start(body: &mut String, number: u32, line: &AnnotatedLine<'_>) {
    let class = if line.ran { "ran" } else { "never" };
    put(body, format_args!("<tr id=\"L{number}\" class=\"{class}\""));
    let mut names = line.scenarios.iter().take(NAMES_MAX).copied().collect::<Vec<_>>().join("\n");
    let more = line.scenarios.len().saturating_sub(NAMES_MAX);
    if more > 0 {
        put(&mut names, format_args!("\nand {more} more"));
    }
    let (count, title) = match (line.ran, line.scenarios.len()) {
        (false, _) if line.boot => ("never".to_owned(), "ran during boot".to_owned()),
        (false, _) => ("never".to_owned(), String::new()),
        (true, 0) => ("all".to_owned(), "an empty scenario runs it, too".to_owned()),
        (true, count) => (count.to_string(), names),
    };
    if !title.is_empty() {
        put(body, format_args!(" title=\"{}\"", escaped(&title)));
    }
    put(body, format_args!("><td>{count}"));
}
