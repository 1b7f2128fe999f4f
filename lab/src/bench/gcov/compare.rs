//! What the lab measured and what the kernel counted → the share of lines on which they agree.

use super::counters::Counted;
use crate::coverage::{Presence, Source};
use std::{collections::BTreeMap, fmt::Write as _};

/// How often the lab and the kernel say the same of a line that both know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    /// Both say that it ran.
    both: usize,
    /// Both say that it did not.
    neither: usize,
    /// Only the lab says that it ran.
    only_lab: usize,
    /// Only the kernel does.
    only_kernel: usize,
}

impl Tally {
    fn add(&mut self, lab: bool, kernel: bool) {
        *match (lab, kernel) {
            (true, true) => &mut self.both,
            (false, false) => &mut self.neither,
            (true, false) => &mut self.only_lab,
            (false, true) => &mut self.only_kernel,
        } += 1;
    }

    fn all(self) -> usize {
        self.both + self.neither + self.only_lab + self.only_kernel
    }

    fn and(self, other: Tally) -> Tally {
        Tally {
            both: self.both + other.both,
            neither: self.neither + other.neither,
            only_lab: self.only_lab + other.only_lab,
            only_kernel: self.only_kernel + other.only_kernel,
        }
    }

    /// The share on which they agree.
    fn agreed(self) -> f64 {
        share(self.both + self.neither, self.all())
    }
}

/// A part of a number of things; of nothing, all.
fn share(part: usize, all: usize) -> f64 {
    if all == 0 { 1.0 } else { part as f64 / all as f64 }
}

/// What several scenarios show.
pub(super) struct Comparison {
    /// Each scenario that was compared.
    scenarios: BTreeMap<String, Tally>,
    /// The number of scenarios that were not.
    left_out: usize,
    /// For each line, what the lab says of all scenarios together.
    lab: Vec<bool>,
    /// The same of the kernel.
    kernel: Counted,
    /// The lines of which they say different things in a scenario.
    differences: BTreeMap<usize, Difference>,
}

/// How a line differs.
#[derive(Default)]
struct Difference {
    /// The number of scenarios of which only the lab says that they ran it.
    only_lab: usize,
    /// The number of scenarios of which only the kernel does.
    only_kernel: usize,
    /// One of them.
    scenario: String,
    /// How much of the line ran in it.
    presence: Option<Presence>,
}

/// Whether the lab says that a line ran of which this much ran.
fn ran(presence: Presence) -> bool {
    presence >= Presence::Shared
}

/// Why the lab may be wrong about a line of which this much ran.
fn reason(presence: Presence) -> &'static str {
    match presence {
        Presence::Statement => "its code was moved or merged",
        Presence::Shared => "its statement begins with an instruction of another line",
        Presence::Code => "a copy of its code has no statement",
        Presence::Nothing => "it needs no code",
    }
}

impl Comparison {
    /// An empty comparison of this many lines.
    pub(super) fn new(lines: usize) -> Comparison {
        Comparison {
            scenarios: BTreeMap::new(),
            left_out: 0,
            lab: vec![false; lines],
            kernel: vec![None; lines],
            differences: BTreeMap::new(),
        }
    }

    /// The number of scenarios that were added.
    pub(super) fn count(&self) -> usize {
        self.scenarios.len() + self.left_out
    }

    /// Adds what a scenario shows; `None` if it cannot be compared.
    pub(super) fn add(&mut self, name: &str, observed: Option<(Vec<Presence>, Counted)>) {
        let Some((lab, kernel)) = observed else {
            self.left_out += 1;
            return;
        };
        let mut tally = Tally::default();
        for (line, (presence, kernel)) in lab.into_iter().zip(kernel).enumerate() {
            let Some(kernel) = kernel else { continue };
            let lab = ran(presence);
            tally.add(lab, kernel);
            self.lab[line] |= lab;
            *self.kernel[line].get_or_insert(false) |= kernel;
            if lab != kernel {
                let difference = self.differences.entry(line).or_default();
                difference.only_lab += usize::from(lab);
                difference.only_kernel += usize::from(kernel);
                name.clone_into(&mut difference.scenario);
                difference.presence = Some(presence);
            }
        }
        self.scenarios.insert(name.to_owned(), tally);
    }

    /// Returns the figures of the bench.
    pub(super) fn figures(&self) -> BTreeMap<String, f64> {
        let total = self.of_files(|_| ()).remove(&()).unwrap_or_default();
        let single = self.scenarios.values().fold(Tally::default(), |sum, one| sum.and(*one));
        let lowest = self.scenarios.values().map(|tally| tally.agreed()).fold(1.0, f64::min);
        let figures = [
            ("scenarios_compared", self.scenarios.len() as f64),
            ("scenarios_left_out", self.left_out as f64),
            ("lines_compared", total.all() as f64),
            ("lines_agreed_in_total_ratio", total.agreed()),
            ("lines_agreed_by_scenario_ratio", single.agreed()),
            ("lines_agreed_lowest_scenario_ratio", lowest),
            ("counted_lines_that_the_lab_has_ratio", share(single.both, single.both + single.only_kernel)),
            ("lines_of_the_lab_that_are_counted_ratio", share(single.both, single.both + single.only_lab)),
        ];
        figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Adds up the lines of all scenarios together, by a key.
    fn of_files<K: Ord>(&self, key: impl Fn(usize) -> K) -> BTreeMap<K, Tally> {
        let mut tallies: BTreeMap<K, Tally> = BTreeMap::new();
        for (line, kernel) in self.kernel.iter().enumerate() {
            if let Some(kernel) = kernel {
                tallies.entry(key(line)).or_default().add(self.lab[line], *kernel);
            }
        }
        tallies
    }

    /// Returns a table of the files.
    pub(super) fn table(&self, source: &Source) -> String {
        let mut table =
            format!("{:40} {:>6} {:>7} {:>8} {:>11}\n", "file", "lines", "agreed", "only lab", "only kernel");
        for (file, tally) in self.of_files(|line| source.lines[line].file) {
            let Tally { only_lab, only_kernel, .. } = tally;
            let (name, lines, agreed) = (&source.files[file], tally.all(), 100.0 * tally.agreed());
            let _ = writeln!(table, "{name:40} {lines:6} {agreed:5.1} % {only_lab:8} {only_kernel:11}");
        }
        table += "\nlines that differ in some scenario:\n";
        for (reason, lines) in self.reasons() {
            let _ = writeln!(table, "{lines:6} {reason}");
        }
        table
    }

    /// Returns the lines that differ in some scenario, each with the number of scenarios and a reason.
    pub(super) fn differences(&self, source: &Source) -> String {
        let mut text = String::new();
        for (line, difference) in &self.differences {
            let place = source.lines[*line];
            let Difference { only_lab, only_kernel, scenario, presence } = difference;
            let also = if self.kernel[*line] == Some(self.lab[*line]) { "" } else { ", also in total" };
            let _ = writeln!(
                text,
                "{}:{}: only lab in {only_lab}, only kernel in {only_kernel}, such as {scenario}{also}: {}",
                source.files[place.file],
                place.number,
                presence.map_or("", reason),
            );
        }
        text
    }

    /// Returns the number of lines that differ in some scenario, by reason.
    fn reasons(&self) -> BTreeMap<&'static str, usize> {
        let mut reasons = BTreeMap::new();
        for presence in self.differences.values().filter_map(|difference| difference.presence) {
            *reasons.entry(reason(presence)).or_default() += 1;
        }
        reasons
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::{Line, Presence::*};

    fn source() -> Source {
        let mut source = Source::default();
        source.files = vec!["a.c".into(), "b.c".into()];
        let lines = [(0, 1), (0, 2), (0, 3), (1, 7), (1, 8)];
        source.lines = lines.map(|(file, number)| Line { file, number }).to_vec();
        source
    }

    fn compared() -> Comparison {
        let mut comparison = Comparison::new(5);
        let [yes, no] = [Some(true), Some(false)];
        let one = vec![Statement, Shared, Code, Nothing, Statement];
        let two = vec![Statement, Statement, Nothing, Shared, Statement];
        comparison.add("one", Some((one, vec![yes, no, no, yes, None])));
        comparison.add("two", Some((two, vec![yes, yes, no, yes, None])));
        comparison.add("dead", None);
        comparison
    }

    #[test]
    fn lines_that_both_know_are_compared() {
        let figures = compared().figures();
        let check =
            |name, expect: f64| assert!((figures[name] - expect).abs() < 1e-9, "{name} {}", figures[name]);
        check("scenarios_compared", 2.0);
        check("scenarios_left_out", 1.0);
        check("lines_compared", 4.0);
        check("lines_agreed_in_total_ratio", 1.0);
        check("lines_agreed_by_scenario_ratio", 6.0 / 8.0);
        check("lines_agreed_lowest_scenario_ratio", 2.0 / 4.0);
        check("counted_lines_that_the_lab_has_ratio", 4.0 / 5.0);
        check("lines_of_the_lab_that_are_counted_ratio", 4.0 / 5.0);
    }

    #[test]
    fn a_difference_has_its_scenarios_and_a_reason() {
        let text = compared().differences(&source());
        let expect = "a.c:2: only lab in 1, only kernel in 0, such as one: its statement begins with an \
            instruction of another line\nb.c:7: only lab in 0, only kernel in 1, such as one: it needs no code\n";
        assert_eq!(text, expect);
    }

    #[test]
    fn the_table_has_all_scenarios_together() {
        let table = compared().table(&source());
        let rows: Vec<Vec<&str>> = table.lines().map(|row| row.split_whitespace().collect()).collect();
        assert_eq!(rows[1], ["a.c", "3", "100.0", "%", "0", "0"]);
        assert_eq!(rows[2], ["b.c", "1", "100.0", "%", "0", "0"]);
    }
}
