//! The rows of line tables.

use super::{Line, Source, source::Piece};
use crate::{
    kernel::text::{Binary, DebugSections, Dwarf, INSTRUCTION, Slice},
    splat::shortened,
};
use anyhow::Result;
use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    path::{Path, PathBuf},
};

type Unit<'a> = gimli::Unit<Slice<'a>>;

/// Addresses, file and line.
type Row = (Range<u64>, usize, u32);

/// Rows of line tables.
pub(super) struct Rows<'a, N> {
    roots: &'a [PathBuf],
    /// Returns the name of a file that is wanted.
    name: N,
    /// The code that counts.
    code: &'a [Range<u64>],
    /// The names of files, with their numbers in the order in which they were found.
    pub(super) names: BTreeMap<String, usize>,
    pub(super) rows: Vec<Row>,
    /// Those of the first instruction of each statement.
    pub(super) starts: Vec<Row>,
}

impl<'a, N> Rows<'a, N> {
    pub(super) fn new(code: &'a [Range<u64>], roots: &'a [PathBuf], name: N) -> Rows<'a, N> {
        Rows { roots, name, code, names: BTreeMap::new(), rows: Vec::new(), starts: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the range of code that counts and has an address.
    fn code_at(&self, address: u64) -> Option<&Range<u64>> {
        self.code.iter().find(|code| code.contains(&address))
    }

    /// Sorts what was read.
    pub(super) fn source(self) -> Source {
        let mut sorted = vec![0; self.names.len()];
        for (place, number) in self.names.values().enumerate() {
            sorted[*number] = place;
        }
        let line = |file: usize, number| Line { file: sorted[file], number };
        let mut lines: Vec<Line> = self.rows.iter().map(|(_, file, number)| line(*file, *number)).collect();
        lines.sort_unstable();
        lines.dedup();
        let placed = |rows: Vec<Row>| -> Vec<Piece> {
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

impl<N: Fn(String) -> Option<String>> Rows<'_, N> {
    /// Reads the line tables of a binary; if `only_own`, only those of the units of the files that are wanted
    /// themselves, which is ten times as fast.
    pub(super) fn read(&mut self, binary: &Binary, only_own: bool) -> Result<()> {
        let sections = DebugSections::read(&binary.file()?)?;
        let dwarf = sections.dwarf()?;
        let mut headers = dwarf.units();
        while let Some(header) = headers.next()? {
            let unit = dwarf.unit(header)?;
            if !only_own || self.is_own(&unit) {
                self.of_unit(&dwarf, &unit)?;
            }
        }
        Ok(())
    }

    /// Returns whether a unit is that of a file that is wanted.
    fn is_own(&self, unit: &Unit<'_>) -> bool {
        let name = unit.name.map(|name| name.to_string_lossy().into_owned());
        name.is_some_and(|name| (self.name)(self.shortened(&place_of(unit).join(name))).is_some())
    }

    /// Returns a path without the roots.
    fn shortened(&self, path: &Path) -> String {
        shortened(&path.to_string_lossy(), self.roots)
    }

    fn of_unit(&mut self, dwarf: &Dwarf<'_>, unit: &Unit<'_>) -> Result<()> {
        let Some(program) = unit.line_program.clone() else { return Ok(()) };
        let mut numbers: HashMap<u64, Option<usize>> = HashMap::new();
        let mut rows = program.rows();
        let mut last: Option<(u64, Option<usize>, u32)> = None;
        while let Some((header, row)) = rows.next_row()? {
            let address = row.address();
            if let Some((start, Some(file), line)) = last.take()
                && let Some(code) = self.code_at(start)
                && start < address
            {
                self.rows.push((start..address.min(code.end), file, line));
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
                && self.code_at(start).is_some()
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
        let mut path = place_of(unit);
        if let Some(directory) = entry.directory(header) {
            path.push(text(directory)?);
        }
        path.push(text(entry.path_name())?);
        let Some(name) = (self.name)(self.shortened(&path)) else { return Ok(None) };
        let next = self.names.len();
        Ok(Some(*self.names.entry(name).or_insert(next)))
    }
}

/// Returns the directory in which a unit was compiled.
fn place_of(unit: &Unit<'_>) -> PathBuf {
    PathBuf::from(unit.comp_dir.map(|place| place.to_string_lossy()).unwrap_or_default().as_ref())
}
