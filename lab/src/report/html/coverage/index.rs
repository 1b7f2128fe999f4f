//! The index: a table of files per kernel.

use super::{escaped, put, shares};
use crate::coverage::{FileCoverage, Measured, Share};

/// Returns the index, given the tables of the kernels.
pub(super) fn page(tables: &str) -> String {
    let body = format!(
        "<header><div class=\"title\"><h1>Coverage</h1><p>the kernel's tracing code that scenarios ran</p>\
         <a href=\"../report.html\">Report</a></div></header>\n<main>\n{tables}</main>\n"
    );
    super::page("ftrace-lab: coverage", &body)
}

/// Returns the table of a kernel, given its files and the paths of their pages.
pub(super) fn table(measured: &Measured, rows: &[(FileCoverage, Option<String>)]) -> String {
    let kernel = &measured.kernel;
    let mut all = FileCoverage::default();
    for (file, _) in rows {
        all.lines = all.lines.and(file.lines);
        all.functions = all.functions.and(file.functions);
        all.branches = all.branches.and(file.branches);
    }
    let mut table = format!(
        "<h2>{} <span class=\"soft\">{}, {} scenarios</span></h2>\n",
        escaped(&kernel.name),
        escaped(&kernel.source_version),
        measured.scenarios.len()
    );
    for name in &measured.incomplete {
        put(
            &mut table,
            format_args!(
                "<p class=\"warning\">{} ran more code than could be noted; it counts for what was noted.</p>\n",
                escaped(name)
            ),
        );
    }
    table.push_str("<div class=\"scroll\"><table class=\"index\">\n<thead><tr><th>file");
    for (name, _) in shares(&all) {
        put(&mut table, format_args!("<th colspan=\"3\">{name}"));
    }
    table.push_str("\n<tbody>\n");
    for (file, page) in rows {
        let name = escaped(&file.file);
        let name = page.as_ref().map_or(name.clone(), |page| format!("<a href=\"{page}\">{name}</a>"));
        put(&mut table, format_args!("<tr><th>{name}"));
        cells(&mut table, file);
    }
    table.push_str("<tr class=\"all\"><th>all");
    cells(&mut table, &all);
    table + "</table></div>\n"
}

fn cells(table: &mut String, file: &FileCoverage) {
    for (_, share) in shares(file) {
        let Share { ran, all } = share;
        let (low, high, most) = (all * 3 / 5, all * 17 / 20, all.max(1));
        put(
            table,
            format_args!(
                "<td class=\"percent\">{} %<td><meter max=\"{most}\" low=\"{low}\" high=\"{high}\" optimum=\"{most}\" \
             value=\"{ran}\"></meter><td class=\"of\">{ran} of {all}",
                share.percent()
            ),
        );
    }
    table.push('\n');
}
