//! The lines, functions and conditional branches of the code of a kernel and of modules, by address.

use super::{Ranges, SourceFiles, rows::Rows};
use crate::{
    arm64,
    kernel::text::{Binary, INSTRUCTION, Symbol},
};
use anyhow::{Context, Result};
use std::{
    collections::{BTreeSet, HashMap},
    ops::Range,
    path::{Path, PathBuf},
};

/// Addresses of a line, and its index.
pub(super) type Piece = (Range<u64>, usize);

/// The section of code that stays after boot.
const TEXT: &str = ".text";

/// The size of the patch site at the entry of a function, in bytes. The first one of a file has no line there.
const PATCH_SITE: u64 = 2 * INSTRUCTION;

/// The lines of a kernel and of modules that have code, with their functions and branches. Code of the kernel
/// that is freed after boot is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The names of files, sorted.
    pub files: Vec<String>,
    /// The lines, by file and number.
    pub lines: Vec<Line>,
    /// The functions, by address.
    pub functions: Vec<Function>,
    /// The branches, by address.
    pub branches: Vec<Branch>,
    /// The addresses of each line, sorted: a line may have many pieces.
    pub(super) pieces: Vec<Piece>,
    /// The first instructions of the statements of each line, sorted; of a line without any, its pieces.
    pub(super) starts: Vec<Piece>,
}

/// A line that has code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line {
    /// Its index in [`Source::files`].
    pub file: usize,
    /// Its number, from 1.
    pub number: u32,
}

/// A function with code of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name. Static functions may share one.
    pub name: String,
    /// Its addresses.
    pub code: Range<u64>,
    /// The index of its file in [`Source::files`].
    pub file: usize,
}

/// How much of a line is in a set of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Presence {
    /// None of its code.
    Nothing,
    /// Some of its code, but not where a statement begins.
    Code,
    /// The beginning of a statement, which is an instruction of another line.
    Shared,
    /// The beginning of a statement.
    Statement,
}

/// A conditional branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The index of its line in [`Source::lines`].
    pub line: usize,
    /// The address of the instruction.
    pub at: u64,
    /// The address that it may jump to.
    pub target: u64,
}

impl Branch {
    /// Returns whether it was taken, and whether it was not. Code behind a branch that also runs on another
    /// way counts, too.
    pub fn ways(&self, ran: &Ranges) -> [bool; 2] {
        match ran.contains(self.at) {
            true => [ran.contains(self.target), ran.contains(self.at + INSTRUCTION)],
            false => [false, false],
        }
    }
}

impl Source {
    /// Reads `files` from the debug information of a vmlinux. `roots` are the prefixes of the names of its files.
    ///
    /// # Errors
    /// The file cannot be read, or has no valid debug information.
    pub fn of_vmlinux(vmlinux: &Path, roots: &[PathBuf], files: &SourceFiles) -> Result<Source> {
        let name = |file: String| files.has(&file).then_some(file);
        let read = || {
            let binary = Binary::vmlinux(vmlinux)?;
            // Not .init.text, which is freed after boot.
            let text = [binary.section(TEXT).with_context(|| format!("it has no section `{TEXT}`"))?];
            let mut rows = Rows::new(&text, roots, name);
            rows.read(&binary, files.are_compiled())?;
            if rows.is_empty() {
                // Such as those of a file that another one includes.
                rows.read(&binary, false)?;
            }
            Source::of_rows(rows, &binary, &text)
        };
        read().with_context(|| format!("cannot read the lines of `{}`", vmlinux.display()))
    }

    /// Reads a module that is not loaded: each of its sections has a separate address range, see
    /// [`Binary::unloaded`]. `name` returns the name of a file, given that in the debug information without
    /// `roots`, if it is wanted.
    pub(super) fn of_module(
        module: &Binary,
        roots: &[PathBuf],
        name: impl Fn(String) -> Option<String>,
    ) -> Result<Source> {
        let code = module.code()?;
        let mut rows = Rows::new(&code, roots, name);
        rows.read(module, false)?;
        Source::of_rows(rows, module, &code)
    }

    fn of_rows<N>(rows: Rows<'_, N>, binary: &Binary, code: &[Range<u64>]) -> Result<Source> {
        let mut source = rows.source();
        source.functions = source.functions_of(binary)?;
        source.branches = source.branches_of(binary, code);
        Ok(source)
    }

    /// Returns all lines, functions and branches of several, which have no address in common.
    pub(super) fn of_all(mut sources: Vec<Source>) -> Source {
        if sources.len() == 1 {
            return sources.remove(0);
        }
        let files: BTreeSet<&String> = sources.iter().flat_map(|source| &source.files).collect();
        let places: HashMap<&String, usize> = files.iter().copied().zip(0..).collect();
        let moved = |source: &Source, line: &Line| Line { file: places[&source.files[line.file]], ..*line };
        let lines: BTreeSet<Line> =
            (sources.iter()).flat_map(|source| source.lines.iter().map(|line| moved(source, line))).collect();
        let numbers: HashMap<Line, usize> = lines.iter().copied().zip(0..).collect();
        let mut all = Source::default();
        for source in &sources {
            let line = |line: usize| numbers[&moved(source, &source.lines[line])];
            let file = |file: usize| places[&source.files[file]];
            let functions = source.functions.iter().cloned();
            all.functions
                .extend(functions.map(|function| Function { file: file(function.file), ..function }));
            let branches = source.branches.iter();
            all.branches.extend(branches.map(|branch| Branch { line: line(branch.line), ..*branch }));
            let placed = |(code, place): &Piece| (code.clone(), line(*place));
            all.pieces.extend(source.pieces.iter().map(placed));
            all.starts.extend(source.starts.iter().map(placed));
        }
        all.files = files.into_iter().cloned().collect();
        all.lines = lines.into_iter().collect();
        all.functions.sort_by(|one, other| (one.code.start, &one.name).cmp(&(other.code.start, &other.name)));
        all.branches.sort_by_key(|branch| branch.at);
        for pieces in [&mut all.pieces, &mut all.starts] {
            pieces.sort_unstable_by_key(|(code, _)| (code.start, code.end));
        }
        all
    }

    /// Returns the same, at addresses that are higher by `offset`.
    pub(super) fn moved(mut self, offset: u64) -> Source {
        let moved = |code: &Range<u64>| code.start.saturating_add(offset)..code.end.saturating_add(offset);
        self.functions.iter_mut().for_each(|function| function.code = moved(&function.code));
        self.pieces.iter_mut().chain(&mut self.starts).for_each(|(code, _)| *code = moved(code));
        for branch in &mut self.branches {
            branch.at = branch.at.saturating_add(offset);
            branch.target = branch.target.wrapping_add(offset);
        }
        self
    }

    /// Returns for each line whether a statement of it begins in the set. Other code of the line does not count:
    /// the compiler moves instructions to where they run earlier, or more often.
    pub fn lines_in(&self, code: &Ranges) -> Vec<bool> {
        let mut found = vec![false; self.lines.len()];
        met(&self.starts, code).for_each(|(_, line)| found[*line] = true);
        found
    }

    /// Returns for each line how much of it is in the set.
    pub(crate) fn presence_in(&self, code: &Ranges) -> Vec<Presence> {
        let mut found = vec![Presence::Nothing; self.lines.len()];
        met(&self.pieces, code).for_each(|(_, line)| found[*line] = Presence::Code);
        for (start, line) in met(&self.starts, code) {
            let own = self.line_at(start.start) == Some(*line);
            let presence = if own { Presence::Statement } else { Presence::Shared };
            found[*line] = found[*line].max(presence);
        }
        found
    }

    /// Returns the lines of the code of a function, in its own file.
    pub fn lines_of(&self, function: &Function) -> Vec<usize> {
        let first = self.pieces.partition_point(|(piece, _)| piece.end <= function.code.start);
        let pieces = self.pieces[first..].iter().take_while(|(piece, _)| piece.start < function.code.end);
        let mut lines: Vec<usize> =
            pieces.map(|(_, line)| *line).filter(|line| self.lines[*line].file == function.file).collect();
        lines.sort_unstable();
        lines.dedup();
        lines
    }

    /// Returns the index of the line of the code at an address.
    pub fn line_at(&self, address: u64) -> Option<usize> {
        let place = self.pieces.partition_point(|(piece, _)| piece.end <= address);
        self.pieces.get(place).filter(|(piece, _)| piece.contains(&address)).map(|(_, line)| *line)
    }

    fn functions_of(&self, binary: &Binary) -> Result<Vec<Function>> {
        let symbols = binary.symbols()?.iter().filter(|symbol| symbol.code && symbol.size > 0);
        let function = |symbol: &Symbol| {
            let entry = symbol.address.saturating_add(PATCH_SITE);
            let after_site = || self.line_at(entry).filter(|_| symbol.range().contains(&entry));
            let line = self.line_at(symbol.address).or_else(after_site)?;
            let name = binary.name(symbol).to_owned();
            Some(Function { name, code: symbol.range(), file: self.lines[line].file })
        };
        let mut functions: Vec<Function> = symbols.filter_map(function).collect();
        functions.sort_by(|one, other| (one.code.start, &one.name).cmp(&(other.code.start, &other.name)));
        // Of several names of one function, one remains.
        functions.dedup_by_key(|function| function.code.start);
        Ok(functions)
    }

    fn branches_of(&self, binary: &Binary, code: &[Range<u64>]) -> Vec<Branch> {
        let texts: Vec<(u64, &[u8])> = (code.iter())
            .filter_map(|code| {
                let length = usize::try_from(code.end - code.start).ok()?;
                Some((code.start, binary.unrelocated(code.start, length)?))
            })
            .collect();
        let word = |at: u64| {
            texts.iter().find_map(|(start, bytes)| {
                let place = usize::try_from(at.checked_sub(*start)?).ok()?;
                Some(u32::from_le_bytes(bytes.get(place..place.checked_add(4)?)?.try_into().ok()?))
            })
        };
        let mut branches = Vec::new();
        for (piece, line) in &self.pieces {
            for at in piece.clone().step_by(INSTRUCTION as usize) {
                if let Some(target) = word(at).and_then(|word| arm64::conditional_target(at, word)) {
                    branches.push(Branch { line: *line, at, target });
                }
            }
        }
        branches
    }
}

/// Returns the sorted `pieces` that have an address of the set.
fn met<'a>(pieces: &'a [Piece], code: &'a Ranges) -> impl Iterator<Item = &'a Piece> {
    let bounds =
        pieces.first().zip(pieces.last()).map_or(0..0, |((first, _), (last, _))| first.start..last.end);
    let mut rest = pieces;
    let near = code.iter().filter(move |range| range.start < bounds.end && range.end > bounds.start);
    near.flat_map(move |range| {
        rest = &rest[rest.partition_point(|(piece, _)| piece.end <= range.start)..];
        rest.iter().take_while(|(piece, _)| piece.start < range.end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Line 1 begins at 0 and has another instruction at 12. The statement of line 2 begins at an instruction
    /// of line 3, its code is elsewhere. Line 3 has no statement, and line 4 no code.
    fn source() -> Source {
        let mut rows = Rows::new(&[], &[], ());
        rows.names.insert("a.c".to_owned(), 0);
        rows.rows = vec![(0..4, 0, 1), (4..8, 0, 3), (8..12, 0, 2), (12..16, 0, 1), (16..24, 0, 3)];
        rows.starts = vec![(0..4, 0, 1), (4..8, 0, 2), (4..8, 0, 4)];
        rows.source()
    }

    #[test]
    fn a_line_runs_if_one_of_its_statements_begins() {
        let source = source();
        assert_eq!(source.lines.iter().map(|line| line.number).collect::<Vec<_>>(), [1, 2, 3]);
        let check = |code: &[[u64; 2]], lines, presence| {
            let code = code.iter().map(|[start, end]| *start..*end).collect();
            assert_eq!(source.lines_in(&code), lines, "{code:?}");
            assert_eq!(source.presence_in(&code), presence, "{code:?}");
        };
        use Presence::{Code, Nothing, Shared, Statement};
        check(&[[0, 4]], [true, false, false], [Statement, Nothing, Nothing]);
        check(&[[4, 8]], [false, true, true], [Nothing, Shared, Statement]);
        check(&[[8, 16]], [false, false, false], [Code, Code, Nothing]);
        check(&[[0, 2], [20, 64]], [true, false, true], [Statement, Nothing, Statement]);
        check(&[[24, 64]], [false, false, false], [Nothing, Nothing, Nothing]);
    }
}
