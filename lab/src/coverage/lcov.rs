//! Coverage in the format of lcov, which genhtml and Codecov read.

use super::{Measured, Ranges};
use std::fmt::Write;

/// Returns the tracefile of what ran. A line's count is the number of scenarios that ran it.
pub fn lcov(measured: &Measured) -> String {
    let source = &measured.source;
    let counts = counts(measured);
    let ran: Ranges = measured.ran();
    let mut text = String::new();
    for (file, name) in source.files.iter().enumerate() {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "TN:{}\nSF:{}",
            measured.kernel.name.replace(['-', '.'], "_"),
            measured.path_of(name).display()
        );
        let functions = source.functions.iter().filter(|function| function.file == file);
        for function in functions {
            let line = source.lines_of(function).first().map_or(1, |line| source.lines[*line].number);
            let scenarios = measured.scenarios.values().filter(|code| code.meets(&function.code)).count();
            let _ = writeln!(text, "FN:{line},{name}\nFNDA:{scenarios},{name}", name = function.name);
        }
        let branches = source.branches.iter().filter(|branch| source.lines[branch.line].file == file);
        for (block, branch) in branches.enumerate() {
            let line = source.lines[branch.line].number;
            let was_run = ran.contains(branch.at);
            for (way, taken) in branch.ways(&ran).into_iter().enumerate() {
                let taken = if was_run { u8::from(taken).to_string() } else { "-".to_owned() };
                let _ = writeln!(text, "BRDA:{line},{block},{way},{taken}");
            }
        }
        for (line, count) in source.lines.iter().zip(&counts).filter(|(line, _)| line.file == file) {
            let _ = writeln!(text, "DA:{},{count}", line.number);
        }
        text.push_str("end_of_record\n");
    }
    text
}

/// Returns for each line the number of scenarios that ran it.
fn counts(measured: &Measured) -> Vec<usize> {
    let mut counts = vec![0; measured.source.lines.len()];
    for code in measured.scenarios.values() {
        let ran = measured.source.lines_in(code);
        counts.iter_mut().zip(ran).for_each(|(count, ran)| *count += usize::from(ran));
    }
    counts
}
