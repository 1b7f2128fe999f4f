//! The list as a page of documentation.

use super::list::{Explored, Mutant};
use std::fmt::Write as _;

/// Describes what the tables show.
const INTRODUCTION: &str = "# Mutants

A suite that passes says little until it is known what it would notice. `kernels/mutants/` lists small defects of the tracing code of 6.12, each such as a reviewer could overlook. `cargo xtask mutants` puts them into a copy of the source, one at a time, builds the kernel, and runs scenarios until one fails. A defect counts as noticed if that scenario fails with it twice and passes without it; the kernel's own selftests do not take part. The nightly workflow tries a tenth of the list, another one each night.

To add a defect, add it to a file of `kernels/mutants/` with `unnoticed: not tried yet`, try it with `cargo xtask mutants NAME`, and name the scenario that noticed it. If none did, a scenario is missing. This page is generated from the list; `UPDATE_EXPECT=1 cargo test -p lab --test all mutants` refreshes it.
";

/// The case of ftracetest that notices a mutant that none notices.
const NONE: &str = "none";

/// Returns `docs/mutants.md`.
pub fn page(mutants: &[Mutant]) -> String {
    let noticed = mutants.iter().filter(|mutant| mutant.scenario.is_some()).count();
    let percent = 100 * noticed / mutants.len().max(1);
    let mut page = format!("{INTRODUCTION}\n{noticed} of {} are noticed: {percent} %.", mutants.len());
    let tried: Vec<&String> = mutants.iter().filter_map(|mutant| mutant.ftracetest.as_ref()).collect();
    let selftest = tried.iter().filter(|case| **case != NONE).count();
    let _ = writeln!(
        page,
        " ftracetest, the kernel's own test of tracing, notices {selftest} of the {} that were tried so far, up to 23 \
         of them in one kernel; what it noticed was tried again with fewer.",
        tried.len(),
    );
    let tried: Vec<Explored> = mutants.iter().filter_map(|mutant| mutant.explore).collect();
    let found = tried.iter().filter(|outcome| **outcome == Explored::Found).count();
    let _ = writeln!(
        page,
        "\n[Exploring](explore.md) finds {found} of the {} that were tried so far, each within ten minutes and \
         without a scenario (`cargo xtask mutants --explore 10`).",
        tried.len(),
    );
    for area in mutants.chunk_by(|a, b| a.area == b.area) {
        let name = area.first().map_or("", |mutant| &mutant.area);
        let _ = writeln!(
            page,
            "\n## {name}\n\n| defect | file | what it breaks | noticed by | in ftracetest by | exploring |\n|---|---|---|---|---|---|"
        );
        for Mutant { name, file, breaks, scenario, ftracetest, unnoticed, explore, .. } in area {
            let by = match (scenario, unnoticed) {
                (Some(scenario), _) => format!("`{scenario}`"),
                (None, reason) => format!("nothing: {}", reason.as_deref().unwrap_or_default()),
            };
            let selftest = match ftracetest.as_deref() {
                Some(NONE) => "nothing".to_owned(),
                Some(case) => format!("`{case}`"),
                None => String::new(),
            };
            let explored = match explore {
                Some(Explored::Found) => "finds it",
                Some(Explored::None) => "does not",
                None => "",
            };
            let (breaks, by) = (cell(breaks), cell(&by));
            let _ = writeln!(page, "| `{name}` | `{file}` | {breaks} | {by} | {selftest} | {explored} |");
        }
    }
    page
}

/// Escapes text for a cell of a table.
fn cell(text: &str) -> String {
    text.trim().replace('|', "\\|").replace('\n', " ")
}
