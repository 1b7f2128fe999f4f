//! Finds the functions that a function without a symbol was inlined into, from the DWARF of vmlinux.
//!
//! Only units that may mention it are read: its name is searched for in DWARF's strings, and the offsets
//! of these strings in the bytes of all units.

use crate::kernel::text::{DebugSections, Dwarf, Slice, map};
use anyhow::{Context, Result};
use gimli::{AttributeValue, Section as _, UnitOffset, constants as dw};
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    path::Path,
};

/// The maximum number of units to read; a function in a header is found long before.
const UNITS_MAX: usize = 64;

/// The maximum number of strings to search for; a short name may be the end of many.
const STRINGS_MAX: usize = 64;

/// The maximum number of functions to name.
const NAMED_MAX: usize = 3;

/// Returns the names of the functions it is inlined into; `None` if DWARF has no such function, empty if it
/// was optimized away.
///
/// # Errors
/// The file cannot be read, or its DWARF is corrupt.
pub(crate) fn inlined(vmlinux: &Path, name: &str) -> Result<Option<Vec<String>>> {
    let read = || -> Result<Option<Vec<String>>> {
        let map = map(vmlinux)?;
        let file = object::File::parse(&map[..])?;
        let sections = DebugSections::read(&file)?;
        let dwarf = sections.dwarf()?;
        let strings = places_in(dwarf.debug_str.reader().slice(), name);
        let mentions = mentions(dwarf.debug_info.reader().slice(), &strings);
        let mut known = false;
        let mut into = BTreeSet::new();
        let mut headers = dwarf.units();
        let mut read = 0;
        while let Some(header) = headers.next()? {
            let Some(start) = header.debug_info_offset() else { continue };
            let first = mentions.partition_point(|at| *at < start.0);
            let end = start.0.saturating_add(header.length_including_self());
            if read == UNITS_MAX || mentions.get(first).is_none_or(|at| *at >= end) {
                continue;
            }
            read += 1;
            let unit = dwarf.unit(header)?;
            known |= of_unit(&dwarf, &unit, name, &mut into)?;
        }
        Ok(known.then(|| into.into_iter().collect()))
    };
    read().with_context(|| format!("cannot look for `{name}` in the DWARF of `{}`", vmlinux.display()))
}

/// Returns the reason for a function that is inlined into these.
pub(crate) fn reason(into: &[String]) -> String {
    let named: Vec<String> = into.iter().take(NAMED_MAX).map(|name| format!("`{name}`")).collect();
    let more = match into.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match named.is_empty() {
        true => "optimized away in this kernel".to_owned(),
        false => format!("inlined into {}{more} in this kernel", named.join(", ")),
    }
}

/// Returns the offsets of `name` in the section of strings; linkers let a string share the end of another.
fn places_in(strings: &[u8], name: &str) -> Vec<u32> {
    let wanted = [name.as_bytes(), &[0]].concat();
    let places = memchr::memmem::find_iter(strings, &wanted);
    places.take(STRINGS_MAX).filter_map(|at| u32::try_from(at).ok()).collect()
}

/// Returns the sorted offsets, aligned or not, at which one of these numbers occurs.
fn mentions(bytes: &[u8], places: &[u32]) -> Vec<usize> {
    let of = |place: &u32| memchr::memmem::find_iter(bytes, &place.to_le_bytes()).collect::<Vec<_>>();
    let mut found: Vec<usize> = places.iter().flat_map(of).collect();
    found.sort_unstable();
    found
}

/// Returns whether a unit declares the function as inlined, and adds the functions it is inlined into.
fn of_unit(
    dwarf: &Dwarf<'_>,
    unit: &gimli::Unit<Slice<'_>>,
    name: &str,
    into: &mut BTreeSet<String>,
) -> Result<bool> {
    let mut abstracts: HashSet<UnitOffset> = HashSet::new();
    let mut names: HashMap<UnitOffset, String> = HashMap::new();
    // The enclosing functions with code, and the inlined functions in them.
    let mut within: Vec<(isize, Called)> = Vec::new();
    let mut found: Vec<(Called, UnitOffset)> = Vec::new();
    let mut entries = unit.entries();
    while let Some(entry) = entries.next_dfs()? {
        within.retain(|(depth, _)| *depth < entry.depth());
        let origin = match entry.attr_value(dw::DW_AT_abstract_origin) {
            Some(AttributeValue::UnitRef(origin)) => Some(origin),
            _ => None,
        };
        match entry.tag() {
            dw::DW_TAG_subprogram => {
                let own = entry.attr_value(dw::DW_AT_name);
                let own = own.and_then(|name| dwarf.attr_string(unit, name).ok());
                let own = own.map(|name| name.to_string_lossy().into_owned());
                let is_abstract = entry.attr(dw::DW_AT_inline).is_some();
                if is_abstract && own.as_deref() == Some(name) {
                    abstracts.insert(entry.offset());
                }
                if let Some(own) = &own {
                    names.insert(entry.offset(), own.clone());
                }
                if !is_abstract {
                    within.push((entry.depth(), Called { own: entry.offset(), origin }));
                }
            }
            dw::DW_TAG_inlined_subroutine => {
                if let (Some(origin), Some((_, by))) = (origin, within.last()) {
                    found.push((*by, origin));
                }
            }
            _ => {}
        }
    }
    for (by, of) in found {
        if abstracts.contains(&of) {
            let called = names.get(&by.own).or_else(|| names.get(&by.origin?));
            into.extend(called.cloned());
        }
    }
    Ok(!abstracts.is_empty())
}

/// The entries that may name a function with code: its own, or that of its abstract origin.
#[derive(Clone, Copy)]
struct Called {
    own: UnitOffset,
    origin: Option<UnitOffset>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_may_be_the_end_of_another() {
        let strings = b"\0read\0vfs_read\0reader\0";
        assert_eq!(places_in(strings, "read"), [1, 10]);
        assert_eq!(places_in(strings, "write"), [0; 0]);
        assert_eq!(mentions(&[9, 10, 0, 0, 0, 7, 0, 0, 0], &[10, 7]), [1, 5]);
        assert_eq!(mentions(&[9, 10, 0, 0], &[10]), [0; 0]);
        assert_eq!(mentions(&[0; 16], &[]), [0; 0]);
    }

    #[test]
    fn few_are_named() {
        let into: Vec<String> = ["a", "b", "c", "d", "e"].map(str::to_owned).into();
        assert_eq!(reason(&into[..1]), "inlined into `a` in this kernel");
        assert_eq!(reason(&into), "inlined into `a`, `b`, `c` and 2 more in this kernel");
        assert_eq!(reason(&[]), "optimized away in this kernel");
    }
}
