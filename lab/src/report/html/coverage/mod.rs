//! `coverage/`: the source files of the kernels that were measured, with the lines that ran.
//!
//! One page per file, and an index. The pages consist of text and style only: colours and the names of
//! scenarios, which a browser shows for the line under the pointer, need no script.

mod index;
mod source;

use super::pack::Hash;
use crate::{
    context::Lab,
    coverage::{FileCoverage, Measured, Share, SourceFiles, annotated},
    host::beneath::open_beneath,
    results::{KernelInfo, PendingDirectory, Results},
    words::printable,
};
use anyhow::{Result, bail};
use fs_err as fs;
use serde::Serialize;
use std::{fmt::Write as _, path::Path};

/// The directory of the pages in that of a run, and the page that lists the others.
const DIRECTORY: &str = "coverage";
const INDEX: &str = "coverage/index.html";

/// The maximum number of bytes of the pages of a run. Those of 55 files and 583 scenarios have 6 MB.
const PAGES_MAX: usize = 64 << 20;

const STYLE: &str = concat!(include_str!("../base.css"), include_str!("style.css"));

/// What the report says about coverage.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Summary {
    /// The index, relative to the report, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<&'static str>,
    /// How many lines ran, by kernel.
    kernels: Vec<String>,
    /// Why there is nothing for a kernel that was measured.
    gaps: Vec<String>,
}

/// Writes the pages of the kernels that were measured into the directory of a run.
pub(super) fn write_pages(lab: &Lab, results: &Results, run: &Path) -> Result<Summary> {
    let (mut pages, mut summary) = (Pages::default(), Summary::default());
    for kernel in &results.kernels {
        let read = || -> Result<Option<Measured>> {
            Measured::of_kernel(run, results, kernel, &lab.cache, &SourceFiles::of_tracing(&lab.root)?)
        };
        match read() {
            Ok(None) => {}
            Ok(Some(measured)) if !measured.has_lines() => {
                summary
                    .gaps
                    .push(format!("{} has no line table; `lab coverage` shows its functions", kernel.name));
            }
            Ok(Some(measured)) => summary.kernels.push(pages.add(&measured)),
            Err(error) => summary.gaps.push(printable(format!("{error:#}"))),
        }
    }
    if !pages.is_empty() {
        pages.write(results, run)?;
    }
    // If the build of a kernel is gone, the pages of an earlier report are still there.
    summary.index = open_beneath(run, INDEX).is_ok().then_some(INDEX);
    Ok(summary)
}

/// The pages of a run.
#[derive(Default)]
struct Pages {
    /// The tables of the index.
    tables: String,
    /// Path below [`DIRECTORY`] and content.
    files: Vec<(String, String)>,
    bytes: usize,
}

impl Pages {
    fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Adds the files of a kernel. Returns how many of its lines ran.
    fn add(&mut self, measured: &Measured) -> String {
        let mut rows = Vec::new();
        for file in annotated(measured) {
            let path = page_of(&measured.kernel, &file.coverage.file).filter(|_| self.bytes < PAGES_MAX);
            let text = measured.text_of(&file.coverage.file);
            let page = path.zip(text.ok()).map(|(path, text)| {
                let page = source::page(&measured.kernel, &path, &file, &text);
                self.bytes += page.len();
                self.files.push((path.clone(), page));
                path
            });
            rows.push((file.coverage, page));
        }
        self.tables += &index::table(measured, &rows);
        let lines = rows.iter().fold(Share::default(), |sum, (file, _)| sum.and(file.lines));
        format!("{} of {} lines ({} %) of {}", lines.ran, lines.all, lines.percent(), measured.kernel.name)
    }

    /// Writes the pages, instead of those of an earlier report.
    fn write(&self, results: &Results, run: &Path) -> Result<()> {
        if results.scenarios.iter().any(|result| Path::new(&result.directory).starts_with(DIRECTORY)) {
            bail!("cannot write `{INDEX}`: the kernel `{DIRECTORY}` has its results there; rename it");
        }
        let target = run.join(DIRECTORY);
        let pending = PendingDirectory::next_to(&target)?;
        for (path, page) in &self.files {
            let path = pending.path().join(path);
            fs::create_dir_all(path.parent().unwrap_or(&path))?;
            fs::write(path, page)?;
        }
        fs::write(pending.path().join("index.html"), index::page(&self.tables))?;
        if target.symlink_metadata().is_ok() { pending.replace() } else { pending.put() }
    }
}

/// Returns the path of the page of a source file below [`DIRECTORY`]; `None` if a name has characters that have a
/// meaning in paths or links.
fn page_of(kernel: &KernelInfo, file: &str) -> Option<String> {
    let path = format!("{}/{file}.html", kernel.name);
    let is_plain = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "._+,-".contains(c))
    };
    path.split('/').all(is_plain).then_some(path)
}

/// Returns a page of text and style.
fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '{}'; base-uri 'none'; \
         form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        Hash::of(STYLE),
        escaped(title),
    )
}

/// Escapes text for an element or a quoted attribute.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' => escaped.push(c),
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// The columns of lines, functions and branches.
fn shares(file: &FileCoverage) -> [(&'static str, Share); 3] {
    [("lines", file.lines), ("functions", file.functions), ("branches", file.branches)]
}

/// Appends text. Writing to a string does not fail.
fn put(to: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = to.write_fmt(text);
}

#[cfg(test)]
mod tests;
