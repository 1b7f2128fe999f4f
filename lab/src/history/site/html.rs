//! Pages of the site, and the drawings in them. Everything that comes from results is escaped here.

use super::super::Ending;
use crate::{
    report::{BASE_STYLE, StyleHash},
    words::{hex, printable},
};
use sha2::{Digest, Sha256};
use std::fmt::{Display, Write as _};

const STYLE: &str = include_str!("style.css");

/// The maximum number of characters of a name in the name of a file.
const SLUG_MAX: usize = 60;

/// Returns a whole page. `body` is HTML.
pub(super) fn page(title: &str, body: &str) -> String {
    let style = format!("{BASE_STYLE}{STYLE}");
    let policy = format!(
        "default-src 'none'; style-src '{}'; img-src data:; base-uri 'none'; form-action 'none'",
        StyleHash::of(&style)
    );
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>{style}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escaped(title)
    )
}

/// Returns text as HTML, in which it is only text.
pub(super) fn escaped(text: impl Display) -> String {
    let mut html = String::new();
    for c in printable(text).chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c => html.push(c),
        }
    }
    html
}

/// Returns the name of the file about something, which another name never has.
pub(super) fn file(kind: &str, name: &str) -> String {
    let readable: String = name
        .chars()
        .take(SLUG_MAX)
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .collect();
    format!("{kind}-{readable}-{}.html", hex(&Sha256::digest(name)[..4]))
}

/// Returns a link to the page about something.
pub(super) fn link(kind: &str, name: &str) -> String {
    format!("<a href=\"{}\">{}</a>", file(kind, name), escaped(name))
}

/// Returns a table. Cells are HTML; the first one of a row is its heading.
pub(super) fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let mut html = String::from("<div class=\"wide\"><table>\n<thead><tr>");
    for heading in headings {
        let _ = write!(html, "<th scope=\"col\">{heading}</th>");
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        html.push_str("<tr>");
        for (at, cell) in row.iter().enumerate() {
            let (open, close) = if at == 0 { ("<th scope=\"row\">", "</th>") } else { ("<td>", "</td>") };
            let _ = write!(html, "{open}{cell}{close}");
        }
        html.push_str("</tr>\n");
    }
    html + "</tbody></table></div>\n"
}

/// Returns the class of an ending in a strip.
pub(super) fn class(ending: Ending) -> &'static str {
    match ending {
        Ending::Passed => "p",
        Ending::KnownBug => "k",
        Ending::Flaky => "x",
        Ending::Failed => "f",
        Ending::Unsupported => "u",
        Ending::LabError => "e",
    }
}

/// Draws nights from left to right, one column each, empty where there is none.
pub(super) fn strip(nights: &[Option<Ending>], label: &str) -> String {
    let count = nights.len().max(1);
    let mut html = format!(
        "<svg class=\"strip\" viewBox=\"0 0 {count} 1\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">",
        escaped(label)
    );
    let mut at = 0;
    for run in nights.chunk_by(|a, b| a == b) {
        if let Some(ending) = run[0] {
            let _ = write!(html, "<path class=\"{}\" d=\"M{at} 0h{}v1H{at}z\"/>", class(ending), run.len());
        }
        at += run.len();
    }
    html + "</svg>"
}

/// Draws a line through values by night, with the lowest and highest value as text; nothing with fewer than two values.
pub(super) fn line(values: &[(u32, f64)], nights: usize, unit: &str, label: &str) -> String {
    const HEIGHT: f64 = 100.0;
    let (low, high) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (_, value)| {
        (low.min(*value), high.max(*value))
    });
    if values.len() < 2 {
        return String::new();
    }
    let scale = if high > low { HEIGHT / (high - low) } else { 0.0 };
    let point = |(night, value): &(u32, f64)| format!("{night},{:.1}", HEIGHT - (value - low) * scale);
    let points: Vec<_> = values.iter().map(point).collect();
    let width = nights.saturating_sub(1).max(1);
    format!(
        "<figure><figcaption>{}: {low:.2} to {high:.2} {unit}, last {:.2} {unit}</figcaption><svg class=\"line\" viewBox=\"0 -4 {width} 108\" \
         preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{0}\"><polyline points=\"{}\"/></svg></figure>\n",
        escaped(label),
        values.last().map(|(_, value)| *value).unwrap_or_default(),
        points.join(" ")
    )
}
