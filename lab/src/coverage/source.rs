//! The lines, functions and conditional branches of a kernel's code, by address.

use super::{Ranges, SourceFiles};
use crate::{
    arm64,
    kernel::text::{Binary, Dwarf, INSTRUCTION, Slice, Symbol, dwarf, map},
    splat::shortened,
};
use anyhow::{Context, Result};
use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    path::{Path, PathBuf},
};

type Unit<'a> = gimli::Unit<Slice<'a>>;

/// The section of code that stays after boot.
const TEXT: &str = ".text";

/// The lines of a kernel that have code, with its functions and branches. Code that is freed after boot is
/// left out.
#[derive(Debug, Default)]
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
    pub(super) pieces: Vec<(Range<u64>, usize)>,
    /// The first instructions of the statements of each line, sorted; of a line without any, its pieces.
    pub(super) starts: Vec<(Range<u64>, usize)>,
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
        let read = || -> Result<Source> {
            let binary = Binary::vmlinux(vmlinux)?;
            // Not .init.text, which is freed after boot.
            let text = binary.section(TEXT).with_context(|| format!("it has no section `{TEXT}`"))?;
            let mut rows = Rows {
                roots,
                files,
                text: text.clone(),
                names: BTreeMap::new(),
                rows: Vec::new(),
                starts: Vec::new(),
            };
            rows.read(vmlinux, files.are_compiled())?;
            if rows.rows.is_empty() {
                // Such as a file that another one includes.
                rows.read(vmlinux, false)?;
            }
            let mut source = rows.source();
            source.functions = source.functions_of(&binary)?;
            source.branches = source.branches_of(&binary, &text);
            Ok(source)
        };
        read().with_context(|| format!("cannot read the lines of `{}`", vmlinux.display()))
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
            let line = self.line_at(symbol.address)?;
            let name = binary.name(symbol).to_owned();
            Some(Function { name, code: symbol.range(), file: self.lines[line].file })
        };
        let mut functions: Vec<Function> = symbols.filter_map(function).collect();
        functions.sort_by(|one, other| (one.code.start, &one.name).cmp(&(other.code.start, &other.name)));
        // Of several names of one function, one remains.
        functions.dedup_by_key(|function| function.code.start);
        Ok(functions)
    }

    fn branches_of(&self, binary: &Binary, text: &Range<u64>) -> Vec<Branch> {
        let length = usize::try_from(text.end - text.start).unwrap_or_default();
        let Some(bytes) = binary.contents(text.start, length) else { return Vec::new() };
        let word = |at: u64| {
            let place = usize::try_from(at.checked_sub(text.start)?).ok()?;
            Some(u32::from_le_bytes(bytes.get(place..place + 4)?.try_into().ok()?))
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
fn met<'a>(
    pieces: &'a [(Range<u64>, usize)],
    code: &'a Ranges,
) -> impl Iterator<Item = &'a (Range<u64>, usize)> {
    let bounds =
        pieces.first().zip(pieces.last()).map_or(0..0, |((first, _), (last, _))| first.start..last.end);
    let mut rest = pieces;
    let near = code.iter().filter(move |range| range.start < bounds.end && range.end > bounds.start);
    near.flat_map(move |range| {
        rest = &rest[rest.partition_point(|(piece, _)| piece.end <= range.start)..];
        rest.iter().take_while(|(piece, _)| piece.start < range.end)
    })
}

/// Rows of line tables.
struct Rows<'a> {
    roots: &'a [PathBuf],
    files: &'a SourceFiles,
    /// The code that stays after boot.
    text: Range<u64>,
    /// The names of files, with their numbers in the order in which they were found.
    names: BTreeMap<String, usize>,
    /// Addresses, file and line.
    rows: Vec<Row>,
    /// The same of the first instruction of each statement.
    starts: Vec<Row>,
}

type Row = (Range<u64>, usize, u32);

impl Rows<'_> {
    /// Reads a vmlinux; if `only_own`, only the units of the files themselves, which is ten times as fast.
    fn read(&mut self, vmlinux: &Path, only_own: bool) -> Result<()> {
        let map = map(vmlinux)?;
        let file = object::File::parse(&map[..])?;
        let dwarf = dwarf(&file)?;
        let mut headers = dwarf.units();
        while let Some(header) = headers.next()? {
            let unit = dwarf.unit(header)?;
            if only_own && !self.is_own(&unit) {
                continue;
            }
            self.of_unit(&dwarf, &unit)?;
        }
        Ok(())
    }

    /// Returns whether a unit is that of a wanted file.
    fn is_own(&self, unit: &Unit<'_>) -> bool {
        let path = |part: &Option<Slice<'_>>| part.map(|part| part.to_string_lossy().into_owned());
        let place = PathBuf::from(path(&unit.comp_dir).unwrap_or_default());
        path(&unit.name)
            .is_some_and(|name| self.files.has(&shortened(&place.join(name).to_string_lossy(), self.roots)))
    }

    fn of_unit(&mut self, dwarf: &Dwarf<'_>, unit: &Unit<'_>) -> Result<()> {
        let Some(program) = unit.line_program.clone() else { return Ok(()) };
        let mut numbers: HashMap<u64, Option<usize>> = HashMap::new();
        let mut rows = program.rows();
        let mut last: Option<(u64, Option<usize>, u32)> = None;
        while let Some((header, row)) = rows.next_row()? {
            let address = row.address();
            if let Some((start, Some(file), line)) = last.take()
                && self.text.contains(&start)
                && start < address
            {
                self.rows.push((start..address, file, line));
            }
            if row.end_sequence() {
                continue;
            }
            let index = row.file_index();
            let number = match numbers.get(&index) {
                Some(number) => *number,
                None => *numbers.entry(index).or_insert(self.file(dwarf, unit, header, index)?),
            };
            last = row.line().and_then(|line| Some((address, number, u32::try_from(line.get()).ok()?)));
            // A statement whose code was moved or is none begins with the next one's.
            if let Some((start, Some(file), line)) = last
                && row.is_stmt()
                && self.text.contains(&start)
            {
                self.starts.push((start..start + INSTRUCTION, file, line));
            }
        }
        Ok(())
    }

    /// Returns the number of a file, if it is wanted.
    fn file(
        &mut self,
        dwarf: &Dwarf<'_>,
        unit: &Unit<'_>,
        header: &gimli::LineProgramHeader<Slice<'_>>,
        index: u64,
    ) -> Result<Option<usize>> {
        let Some(entry) = header.file(index) else { return Ok(None) };
        let text =
            |value| Ok::<_, gimli::Error>(dwarf.attr_string(unit, value)?.to_string_lossy().into_owned());
        let place = unit.comp_dir.map(|place| place.to_string_lossy().into_owned());
        let mut path = PathBuf::from(place.unwrap_or_default());
        if let Some(directory) = entry.directory(header) {
            path.push(text(directory)?);
        }
        path.push(text(entry.path_name())?);
        let name = shortened(&path.to_string_lossy(), self.roots);
        if !self.files.has(&name) {
            return Ok(None);
        }
        let next = self.names.len();
        Ok(Some(*self.names.entry(name).or_insert(next)))
    }

    /// Sorts what was read.
    fn source(self) -> Source {
        let mut sorted = vec![0; self.names.len()];
        for (place, number) in self.names.values().enumerate() {
            sorted[*number] = place;
        }
        let line = |file: usize, number| Line { file: sorted[file], number };
        let mut lines: Vec<Line> = self.rows.iter().map(|(_, file, number)| line(*file, *number)).collect();
        lines.sort_unstable();
        lines.dedup();
        let placed = |rows: Vec<Row>| -> Vec<(Range<u64>, usize)> {
            let place = |(code, file, number)| Some((code, lines.binary_search(&line(file, number)).ok()?));
            let mut placed: Vec<_> = rows.into_iter().filter_map(place).collect();
            placed.sort_unstable_by_key(|(code, line)| (code.start, code.end, *line));
            placed.dedup();
            placed
        };
        // A line without code of its own is not counted, even if a statement begins on it.
        let (pieces, mut starts) = (placed(self.rows), placed(self.starts));
        let mut begins = vec![false; lines.len()];
        starts.iter().for_each(|(_, line)| begins[*line] = true);
        starts.extend(pieces.iter().filter(|(_, line)| !begins[*line]).cloned());
        starts.sort_unstable_by_key(|(code, _)| (code.start, code.end));
        Source { files: self.names.into_keys().collect(), lines, pieces, starts, ..Source::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Line 1 begins at 0 and has another instruction at 12. The statement of line 2 begins at an instruction
    /// of line 3, its code is elsewhere. Line 3 has no statement, and line 4 no code.
    fn source() -> Source {
        let rows = Rows {
            roots: &[],
            wanted: |_: &str| true,
            text: 0..64,
            names: BTreeMap::from([("a.c".to_owned(), 0)]),
            rows: vec![(0..4, 0, 1), (4..8, 0, 3), (8..12, 0, 2), (12..16, 0, 1), (16..24, 0, 3)],
            starts: vec![(0..4, 0, 1), (4..8, 0, 2), (4..8, 0, 4)],
        };
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
