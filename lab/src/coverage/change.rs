//! A change of source files: which lines, before and after.

use anyhow::{Context, Result, bail};
use std::ops::Range;

/// The changed lines of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileChange {
    /// The file, relative to its tree.
    pub file: String,
    /// The lines that were changed or removed, by their numbers before. What was inserted changes the line
    /// before it.
    pub before: Vec<Range<u32>>,
    /// The lines that are changed or new, by their numbers now.
    pub after: Vec<Range<u32>>,
}

impl FileChange {
    /// Parses `PATH:LINE` or `PATH:FIRST-LAST`; a path alone is the whole file.
    ///
    /// # Errors
    /// The lines are not numbers in order.
    pub fn parse(text: &str) -> Result<FileChange> {
        let (file, lines) = match text.rsplit_once(':') {
            Some((file, numbers)) => {
                let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
                let number = |text: &str| text.parse().ok().filter(|number| *number > 0);
                let (first, last): (Option<u32>, Option<u32>) = (number(first), number(last));
                let lines = first.zip(last).filter(|(first, last)| first <= last);
                let (first, last) =
                    lines.with_context(|| format!("`{text}` is not PATH, PATH:LINE or PATH:FIRST-LAST"))?;
                (file, first..last.saturating_add(1))
            }
            None => (text, 1..u32::MAX),
        };
        Ok(FileChange { file: file.to_owned(), before: vec![lines.clone()], after: vec![lines] })
    }

    /// Parses the output of `git diff` or `diff -u`. Each context line counts as unchanged.
    ///
    /// # Errors
    /// It is not a unified diff.
    pub fn parse_diff(diff: &str) -> Result<Vec<FileChange>> {
        let mut changes: Vec<FileChange> = Vec::new();
        let mut old = String::new();
        let mut lines = diff.lines();
        while let Some(line) = lines.next() {
            if let Some(name) = line.strip_prefix("--- ") {
                old = path(name);
            } else if let Some(name) = line.strip_prefix("+++ ") {
                let new = path(name);
                let file = if new == DELETED { old.clone() } else { new };
                changes.push(FileChange { file, ..FileChange::default() });
            } else if let Some(header) = line.strip_prefix("@@ ") {
                let hunk =
                    Hunk::parse(header).with_context(|| format!("`{line}` is not the start of a hunk"))?;
                let change = changes.last_mut().context("a hunk comes before any file")?;
                hunk.read(&mut lines, change);
            }
        }
        if changes.is_empty() && !diff.trim().is_empty() {
            bail!("there is no `+++` line: it is not a unified diff");
        }
        Ok(changes)
    }
}

/// The name of a file that does not exist on one side.
const DELETED: &str = "/dev/null";

/// Returns the path in a line of a diff, without `a/` or `b/` and without a time.
fn path(name: &str) -> String {
    let name = name.split('\t').next().unwrap_or(name).trim_end();
    let inner = name.strip_prefix("a/").or_else(|| name.strip_prefix("b/"));
    inner.unwrap_or(name).to_owned()
}

/// The place of a hunk: first line and number of lines, before and after.
struct Hunk {
    before: (u32, u32),
    after: (u32, u32),
}

impl Hunk {
    /// Parses `-1,2 +3,4 @@ …`.
    fn parse(header: &str) -> Option<Hunk> {
        let mut words = header.split(' ');
        let mut side = |sign: char| {
            let word = words.next()?.strip_prefix(sign)?;
            let (first, count) = word.split_once(',').unwrap_or((word, "1"));
            Some((first.parse().ok()?, count.parse().ok()?))
        };
        Some(Hunk { before: side('-')?, after: side('+')? })
    }

    /// Reads the lines of the hunk.
    fn read<'a>(self, lines: &mut impl Iterator<Item = &'a str>, change: &mut FileChange) {
        // The first line of nothing is the line before it.
        let first = |(first, count): (u32, u32)| if count == 0 { first.saturating_add(1) } else { first };
        let (mut before, mut after) = (first(self.before), first(self.after));
        let (mut left, mut right) = (self.before.1, self.after.1);
        while left > 0 || right > 0 {
            let Some(line) = lines.next() else { return };
            match line.as_bytes().first() {
                Some(b'-') => {
                    add(&mut change.before, before);
                    (before, left) = (before.saturating_add(1), left.saturating_sub(1));
                }
                Some(b'+') => {
                    if change.before.last().is_none_or(|last| last.end < before) {
                        add(&mut change.before, before.saturating_sub(1).max(1));
                    }
                    add(&mut change.after, after);
                    (after, right) = (after.saturating_add(1), right.saturating_sub(1));
                }
                Some(b'\\') => {}
                _ => {
                    (before, left) = (before.saturating_add(1), left.saturating_sub(1));
                    (after, right) = (after.saturating_add(1), right.saturating_sub(1));
                }
            }
        }
    }
}

fn add(lines: &mut Vec<Range<u32>>, line: u32) {
    match lines.last_mut().filter(|last| last.end == line) {
        Some(last) => last.end = line.saturating_add(1),
        None => lines.push(line..line.saturating_add(1)),
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a list of one range of lines")]
mod tests {
    use super::*;

    #[test]
    fn lines_are_named() {
        let check = |text: &str, file: &str, lines: Range<u32>| {
            let change = FileChange::parse(text).unwrap();
            assert_eq!((change.file.as_str(), &change.before[..]), (file, &[lines][..]));
        };
        check("fs/eventfd.c:12", "fs/eventfd.c", 12..13);
        check("fs/eventfd.c:12-14", "fs/eventfd.c", 12..15);
        check("fs/eventfd.c", "fs/eventfd.c", 1..u32::MAX);
        for wrong in ["a.c:", "a.c:0", "a.c:5-4", "a.c:x"] {
            assert!(FileChange::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_diff_has_the_lines_of_both_sides() {
        let diff = "diff --git a/kernel/a.c b/kernel/a.c\nindex 1..2 100644\n--- a/kernel/a.c\n+++ b/kernel/a.c\n\
                    @@ -10,3 +10,4 @@ int f(void)\n one\n-two\n+2\n+2b\n three\n@@ -40 +41,0 @@\n-gone\n\
                    @@ -50,0 +51,2 @@\n+new\n+--- more\n--- a/b.c\t2026-01-01\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-x\n-y\n";
        let changes = FileChange::parse_diff(diff).unwrap();
        let expect = [
            FileChange {
                file: "kernel/a.c".into(),
                before: vec![11..12, 40..41, 50..51],
                after: vec![11..13, 51..53],
            },
            FileChange { file: "b.c".into(), before: vec![1..3], after: vec![] },
        ];
        assert_eq!(changes, expect);
        assert_eq!(FileChange::parse_diff("").unwrap(), []);
    }

    #[test]
    fn what_is_no_diff_is_an_error() {
        for wrong in [
            "hello",
            "@@ -1 +1 @@\n-a\n+b\n",
            "--- a/x\n+++ b/x\n@@ -1 @@\n",
            "--- a/x\n+++ b/x\n@@ -x +1 @@\n",
        ] {
            assert!(FileChange::parse_diff(wrong).is_err(), "{wrong}");
        }
        // A hunk that ends too early.
        FileChange::parse_diff("--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n-a\n").unwrap();
    }
}
