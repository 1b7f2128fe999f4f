//! The list as a page of documentation.

use super::list::Mutant;
use std::fmt::Write as _;

/// Returns the mutants as tables in Markdown, one per area.
pub fn table(mutants: &[Mutant]) -> String {
    let mut page = String::new();
    let noticed = mutants.iter().filter(|mutant| mutant.scenario.is_some()).count();
    let percent = 100.0 * noticed as f64 / mutants.len().max(1) as f64;
    let _ = writeln!(page, "{noticed} of {} defects are noticed: {percent:.0} %.", mutants.len());
    for area in mutants.chunk_by(|a, b| a.area == b.area) {
        let name = area.first().map_or("", |mutant| &mutant.area);
        let _ = writeln!(page, "\n## {name}\n\n| defect | file | what it breaks | noticed by |\n|---|---|---|---|");
        for Mutant { name, file, breaks, scenario, unnoticed, .. } in area {
            let by = match (scenario, unnoticed) {
                (Some(scenario), _) => format!("`{scenario}`"),
                (None, reason) => format!("nothing: {}", reason.as_deref().unwrap_or_default()),
            };
            let _ = writeln!(page, "| {name} | `{file}` | {breaks} | {by} |");
        }
    }
    page
}
