//! The part of a log that the report shows: its end, with the lines of each splat marked.

use crate::splat::Splat;
use serde::Serialize;

/// The maximum number of bytes of a log in the report: for a good result, and for a failure.
const LOG_MAX: [usize; 2] = [8 << 10, 96 << 10];

/// The maximum number of lines of one splat.
const SPLAT_LINES: usize = 120;

/// A log, or the end of one.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Log {
    pub(super) name: String,
    pub(super) text: String,
    /// The number of lines omitted before the first.
    pub(super) left_out: usize,
    /// First line, line after the last (both from 0), and index of the splat.
    pub(super) marks: Vec<(usize, usize, usize)>,
}

/// Returns the relevant part of a log. For a good result it begins with the first step: boot messages are
/// always the same.
pub(super) fn log(name: &str, whole: &str, splats: &[Splat], good: bool) -> Log {
    let begins = crate::splat::step_mark(1);
    let lines: Vec<&str> = whole.lines().collect();
    let mut first = 0;
    if good && let Some(at) = lines.iter().position(|line| line.contains(&begins)) {
        first = at;
    }
    let mut bytes = lines.iter().skip(first).map(|line| line.len() + 1).sum::<usize>();
    while bytes > LOG_MAX[usize::from(!good)] {
        bytes -= lines[first].len() + 1;
        first += 1;
    }
    let shown = &lines[first..];
    Log { name: name.to_owned(), text: shown.join("\n"), left_out: first, marks: marks(shown, splats) }
}

/// Finds the lines of splats, in the order of the log. A splat that occurred several times is marked each
/// time.
fn marks(lines: &[&str], splats: &[Splat]) -> Vec<(usize, usize, usize)> {
    let mut marks = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let title = |splat: &Splat| {
            let title = splat.title.trim_end_matches('…');
            !title.is_empty() && lines[at].contains(title)
        };
        let Some(splat) = splats.iter().position(title) else {
            at += 1;
            continue;
        };
        let end = end(lines, at);
        marks.push((begin(lines, at), end, splat));
        at = end;
    }
    marks
}

/// Returns the line after the last one of a splat whose title is on line `at`.
fn end(lines: &[&str], at: usize) -> usize {
    let last = lines.len().min(at + SPLAT_LINES);
    for (index, line) in lines.iter().enumerate().take(last).skip(at + 1) {
        if line.contains("---[ end ") {
            return index + 1;
        }
        if line.contains("ftrace-lab: step ") || line.contains("[ cut here ]") {
            return index;
        }
    }
    // Without an end marker it ends with its call trace.
    let trace = (at..last).find(|&index| lines[index].to_ascii_lowercase().contains("call trace:"));
    let frame = |line: &str| line.contains("+0x");
    let after = trace.and_then(|trace| (trace + 1..last).find(|&index| !frame(lines[index])));
    after.unwrap_or(if trace.is_some() { last } else { at + 1 })
}

/// Returns the line of the `cut here` marker up to three lines before a title, else that of the title.
fn begin(lines: &[&str], at: usize) -> usize {
    let cut = (at.saturating_sub(3)..at).find(|&index| lines[index].contains("[ cut here ]"));
    cut.unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::splat::find;

    #[test]
    fn the_lines_of_a_splat_are_marked_and_no_others() {
        let whole = include_str!("../../../tests/fixtures/splats/warn.log");
        let splats = find(whole);
        let log = log("console.txt", whole, &splats, false);
        let lines: Vec<&str> = log.text.lines().collect();
        let [(from, to, 0)] = log.marks[..] else { panic!("{:?}", log.marks) };
        assert!(lines[from].contains("[ cut here ]"), "{}", lines[from]);
        assert!(lines[to - 1].contains("---[ end trace"), "{}", lines[to - 1]);
    }

    #[test]
    fn a_long_log_keeps_its_end_and_says_so() {
        let whole: String = (0..20_000).map(|number| format!("line {number}\n")).collect();
        let log = log("console.txt", &whole, &[], false);
        assert!(log.text.ends_with("line 19999") && log.text.len() <= LOG_MAX[1], "{}", log.text.len());
        assert!(log.text.starts_with(&format!("line {}\n", log.left_out)));
        let boot = "<6>boot\n<14>ftrace-lab: step 1\n<6>more\n";
        let good = super::log("kernel.log", boot, &[], true);
        assert_eq!((good.left_out, good.text.as_str()), (1, "<14>ftrace-lab: step 1\n<6>more"));
        assert_eq!(super::log("kernel.log", boot, &[], false).left_out, 0);
    }
}
