//! The code that a machine ran, as a file beside its trace.

use super::{ModuleRan, Ranges, SectionRan};
use crate::{host::beneath::read_beneath, words::printable};
use anyhow::{Context, Result, bail, ensure};
use fs_err as fs;
use serde::{Deserialize, Serialize};
use std::{io, path::Path};

/// The version of the file. The first one had no modules.
const SCHEMA: u32 = 2;

/// The maximum size of the file, in bytes; one of a scenario has 26,000.
const FILE_MAX: u64 = 16 << 20;

/// The code that a machine ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// The build ID of the kernel.
    pub build_id: String,
    /// The addresses, those of modules included.
    pub code: Ranges,
    /// The number of blocks that were run, but not noted. If there are any, nothing is known not to
    /// have run.
    pub lost: u64,
    /// The modules that were loaded, once for each load.
    pub modules: Vec<ModuleRan>,
}

/// The content of the file, followed by the modules.
#[derive(Serialize, Deserialize)]
struct Stored {
    schema: u32,
    build_id: String,
    lost: u64,
    ranges: StoredRanges,
}

/// Each range is the distance from the end of the one before, and its length.
type StoredRanges = Vec<(u64, u64)>;

/// A module that was loaded.
#[derive(Serialize, Deserialize)]
struct StoredModule {
    name: String,
    build_id: String,
    sources: Option<String>,
    /// The name of a section, its address, and what ran of it, as distances from its start.
    sections: Vec<(String, u64, StoredRanges)>,
}

impl Ran {
    /// Writes the file.
    pub(crate) fn store(&self, path: &Path) -> Result<()> {
        let stored = Stored {
            schema: SCHEMA,
            build_id: self.build_id.clone(),
            lost: self.lost,
            ranges: stored(&self.code),
        };
        let modules: Vec<StoredModule> = self.modules.iter().map(stored_module).collect();
        Ok(fs::write(path, [postcard::to_stdvec(&stored)?, postcard::to_stdvec(&modules)?].concat())?)
    }

    /// Reads the file `name` below a directory; `None` if there is none.
    pub fn load(directory: &Path, name: &str) -> Result<Option<Ran>> {
        let bytes = match read_beneath(directory, name, FILE_MAX) {
            Err(error) if is_missing(&error) => return Ok(None),
            bytes => bytes?,
        };
        parse(&bytes).map(Some).with_context(|| format!("cannot read `{}`", directory.join(name).display()))
    }
}

fn is_missing(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::NotFound)
    })
}

fn stored(code: &Ranges) -> StoredRanges {
    let mut end = 0;
    let stored = code.iter().map(|range| {
        let gap = range.start - end;
        end = range.end;
        (gap, range.end - range.start)
    });
    stored.collect()
}

fn stored_module(module: &ModuleRan) -> StoredModule {
    let ModuleRan { name, build_id, sources, sections } = module.clone();
    let section = |section: SectionRan| (section.name, section.address, stored(&section.ran));
    StoredModule { name, build_id, sources, sections: sections.into_iter().map(section).collect() }
}

fn parse(bytes: &[u8]) -> Result<Ran> {
    let (schema, _) = postcard::take_from_bytes::<u32>(bytes)?;
    if !(1..=SCHEMA).contains(&schema) {
        bail!("it has schema {schema}, expected {SCHEMA}");
    }
    let (stored, rest): (Stored, &[u8]) = postcard::take_from_bytes(bytes)?;
    let modules: Vec<StoredModule> = if schema == 1 { Vec::new() } else { postcard::from_bytes(rest)? };
    let modules = modules.into_iter().map(module).collect::<Result<_>>()?;
    Ok(Ran { build_id: stored.build_id, code: loaded(stored.ranges)?, lost: stored.lost, modules })
}

fn loaded(stored: StoredRanges) -> Result<Ranges> {
    let mut end = 0_u64;
    let range = |(gap, length): (u64, u64)| {
        let start = end.checked_add(gap)?;
        end = start.checked_add(length)?;
        Some(start..end)
    };
    stored.into_iter().map(range).collect::<Option<Ranges>>().context("its addresses overflow")
}

fn module(stored: StoredModule) -> Result<ModuleRan> {
    let StoredModule { name, build_id, sources, sections } = stored;
    for text in [Some(&name), Some(&build_id), sources.as_ref()].into_iter().flatten() {
        ensure!(!text.contains('\n') && printable(text) == *text, "the name of a module is not printable");
    }
    let section = |(name, address, ran)| Ok(SectionRan { name, address, ran: loaded(ran)? });
    let sections = sections.into_iter().map(section).collect::<Result<_>>()?;
    Ok(ModuleRan { name, build_id, sources, sections })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::COVERAGE;

    #[test]
    fn what_is_stored_is_loaded() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Ran::load(directory.path(), COVERAGE).unwrap(), None);
        let ranges = [0xffff_8000_8000_0000..0xffff_8000_8000_0010, 0xffff_8000_8000_0020..u64::MAX];
        let code: Ranges = ranges.into_iter().collect();
        let section = SectionRan { name: ".text".into(), address: 0xffff_8000_7a00_0000, ran: code.clone() };
        let module = |sections| ModuleRan {
            name: "mine".into(),
            build_id: "cd34".into(),
            sources: Some("/home/u/mine".into()),
            sections,
        };
        let modules = vec![module(vec![section]), module(vec![])];
        let ran = Ran { build_id: "ab12".into(), code, lost: 3, modules };
        ran.store(&directory.path().join(COVERAGE)).unwrap();
        assert_eq!(Ran::load(directory.path(), COVERAGE).unwrap(), Some(ran));
    }

    #[test]
    fn a_file_of_the_first_version_has_no_modules() {
        let stored = Stored { schema: 1, build_id: "ab12".into(), lost: 0, ranges: vec![(4, 4)] };
        let ran = parse(&postcard::to_stdvec(&stored).unwrap()).unwrap();
        assert_eq!((ran.code.contains(7), ran.code.contains(8), ran.modules), (true, false, vec![]));
    }

    #[test]
    fn a_damaged_file_is_an_error() {
        let stored = |schema, ranges| Stored { schema, build_id: "ab12".into(), lost: 0, ranges };
        let unprintable = StoredModule {
            name: "a\u{1b}[2J".into(),
            build_id: String::new(),
            sources: None,
            sections: vec![],
        };
        let modules = postcard::to_stdvec(&vec![unprintable]).unwrap();
        let error = parse(&[postcard::to_stdvec(&stored(2, vec![])).unwrap(), modules].concat()).unwrap_err();
        assert!(format!("{error:#}").contains("not printable"), "{error:#}");
        let check = |stored: &Stored, expect: &str| {
            let error = parse(&postcard::to_stdvec(stored).unwrap()).unwrap_err();
            assert!(format!("{error:#}").contains(expect), "{error:#}");
        };
        check(&stored(9, vec![]), "schema 9");
        check(&stored(1, vec![(u64::MAX, 4)]), "overflow");
        assert!(parse(&[1, 0, 200]).is_err());
        assert!(parse(&postcard::to_stdvec(&stored(2, vec![])).unwrap()).is_err());
        assert!(parse(&[]).is_err());
    }
}
