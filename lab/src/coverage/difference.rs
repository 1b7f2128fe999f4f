//! What one run covers that another one does not.

use super::{Measured, Share};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// How the coverage of a file differs between two runs, A and B.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileDifference {
    /// The file, relative to the kernel tree.
    pub file: String,
    /// The lines that A and B ran.
    pub lines: [Share; 2],
    /// The functions that both kernels have and that only A, or only B, ran.
    pub functions: [Vec<String>; 2],
    /// The lines that only A, or only B, ran. Empty if the kernels differ, since lines have other numbers then.
    pub numbers: [Vec<u32>; 2],
}

impl FileDifference {
    fn is_none(&self) -> bool {
        let [a, b] = self.lines;
        a == b && self.functions.iter().all(Vec::is_empty) && self.numbers.iter().all(Vec::is_empty)
    }
}

/// Returns the files whose coverage differs between two runs.
pub fn difference(a: &Measured, b: &Measured) -> Vec<FileDifference> {
    let same_kernel = a.vmlinux().is_some() && a.vmlinux() == b.vmlinux();
    let [mut a, mut b] = [a, b].map(files);
    let names: BTreeSet<&str> = a.keys().chain(b.keys()).copied().collect();
    let mut differences = Vec::new();
    for name in names {
        let sides = [a.remove(name).unwrap_or_default(), b.remove(name).unwrap_or_default()];
        let mut found = FileDifference {
            file: name.to_owned(),
            lines: sides.each_ref().map(|side| side.lines.values().copied().collect()),
            ..FileDifference::default()
        };
        for (side, other) in [(0, 1), (1, 0)] {
            let functions = only(&sides[side].functions, &sides[other].functions);
            found.functions[side] = functions.into_iter().map(str::to_owned).collect();
            if same_kernel {
                found.numbers[side] = only(&sides[side].lines, &sides[other].lines);
            }
        }
        differences.push(found);
    }
    differences.retain(|found| !found.is_none());
    differences
}

/// What a file has, and whether it ran.
#[derive(Default)]
struct File<'a> {
    lines: BTreeMap<u32, bool>,
    functions: BTreeMap<&'a str, bool>,
}

fn files(measured: &Measured) -> BTreeMap<&str, File<'_>> {
    let (source, ran) = (&measured.source, measured.ran());
    let mut files: BTreeMap<&str, File<'_>> = BTreeMap::new();
    for (line, ran) in source.lines.iter().zip(source.lines_in(&ran)) {
        files.entry(&source.files[line.file]).or_default().lines.insert(line.number, ran);
    }
    for function in &source.functions {
        let functions = &mut files.entry(&source.files[function.file]).or_default().functions;
        // Static functions may share a name.
        *functions.entry(&function.name).or_default() |= ran.meets(&function.code);
    }
    files
}

/// Returns what ran in one and, although it is there, not in the other.
fn only<K: Ord + Copy>(one: &BTreeMap<K, bool>, other: &BTreeMap<K, bool>) -> Vec<K> {
    let ran = one.iter().filter(|(key, ran)| **ran && other.get(key) == Some(&false));
    ran.map(|(key, _)| *key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_other_has_is_compared() {
        let one = BTreeMap::from([("both", true), ("a", true), ("neither", false), ("missing", true)]);
        let other = BTreeMap::from([("both", true), ("a", false), ("neither", false), ("b", true)]);
        assert_eq!(only(&one, &other), ["a"]);
        assert_eq!(only(&other, &one), [""; 0]);
    }

    #[test]
    fn files_that_ran_alike_do_not_differ() {
        let share = |ran| Share { ran, all: 10 };
        let of = |lines, functions: [&[&str]; 2], numbers: [&[u32]; 2]| FileDifference {
            file: "kernel/kprobes.c".into(),
            lines,
            functions: functions.map(|names| names.iter().map(ToString::to_string).collect()),
            numbers: numbers.map(<[u32]>::to_vec),
        };
        assert!(of([share(3), share(3)], [&[], &[]], [&[], &[]]).is_none());
        assert!(!of([share(3), share(4)], [&[], &[]], [&[], &[]]).is_none());
        assert!(!of([share(3), share(3)], [&[], &["f"]], [&[], &[]]).is_none());
        assert!(!of([share(3), share(3)], [&[], &[]], [&[7], &[8]]).is_none());
    }
}
