//! Source files, with what ran of them line by line.

use super::{FileCoverage, Measured};
use std::collections::BTreeMap;

/// A source file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnnotatedFile<'a> {
    /// Its name, and how much of it ran.
    pub coverage: FileCoverage,
    /// Its lines that have code, by number.
    pub lines: BTreeMap<u32, AnnotatedLine<'a>>,
    /// The functions that no scenario ran, with the numbers of their first lines.
    pub never: Vec<(&'a str, u32)>,
}

/// A line that has code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnnotatedLine<'a> {
    /// Whether a scenario ran it.
    pub ran: bool,
    /// Whether the kernel ran it until its snapshot was made.
    pub boot: bool,
    /// The scenarios that ran it, apart from what an empty scenario ran. Those that ran the least code in total
    /// come first.
    pub scenarios: Vec<&'a str>,
}

/// Returns the source files of a kernel that was measured.
pub fn annotated(measured: &Measured) -> Vec<AnnotatedFile<'_>> {
    let (source, ran) = (&measured.source, measured.ran());
    let of_file = |coverage| AnnotatedFile { coverage, ..AnnotatedFile::default() };
    let mut files: Vec<AnnotatedFile<'_>> = measured.files(&ran).into_iter().map(of_file).collect();
    let lines = source.lines.iter().zip(measured.scenarios_of_lines());
    let runs = source.lines_in(&ran).into_iter().zip(source.lines_in(&measured.boot));
    for ((line, scenarios), (ran, boot)) in lines.zip(runs) {
        files[line.file].lines.insert(line.number, AnnotatedLine { ran, boot, scenarios });
    }
    for function in source.functions.iter().filter(|function| !ran.meets(&function.code)) {
        let first = source.line_at(function.code.start).map_or(0, |line| source.lines[line].number);
        files[function.file].never.push((function.name.as_str(), first));
    }
    files
}
