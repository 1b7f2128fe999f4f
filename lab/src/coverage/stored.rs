//! The code that a machine ran, as a file beside its trace.

use super::Ranges;
use crate::host::beneath::read_beneath;
use anyhow::{Context, Result, bail};
use fs_err as fs;
use serde::{Deserialize, Serialize};
use std::{io, path::Path};

/// The version of the file.
const SCHEMA: u32 = 1;

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
}

/// The content of the file: each range is the distance from the end of the one before, and its length.
#[derive(Serialize, Deserialize)]
struct Stored {
    schema: u32,
    build_id: String,
    lost: u64,
    ranges: Vec<(u64, u64)>,
}

impl Ran {
    /// Writes the file.
    pub(crate) fn store(&self, path: &Path) -> Result<()> {
        let mut end = 0;
        let ranges = self.code.iter().map(|range| {
            let gap = range.start - end;
            end = range.end;
            (gap, range.end - range.start)
        });
        let stored = Stored {
            schema: SCHEMA,
            build_id: self.build_id.clone(),
            lost: self.lost,
            ranges: ranges.collect(),
        };
        Ok(fs::write(path, postcard::to_stdvec(&stored)?)?)
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

fn parse(bytes: &[u8]) -> Result<Ran> {
    let (schema, _) = postcard::take_from_bytes::<u32>(bytes)?;
    if schema != SCHEMA {
        bail!("it has schema {schema}, expected {SCHEMA}");
    }
    let stored: Stored = postcard::from_bytes(bytes)?;
    let mut end = 0_u64;
    let range = |(gap, length): (u64, u64)| {
        let start = end.checked_add(gap)?;
        end = start.checked_add(length)?;
        Some(start..end)
    };
    let code: Option<Ranges> = stored.ranges.into_iter().map(range).collect();
    let code = code.context("its addresses overflow")?;
    Ok(Ran { build_id: stored.build_id, code, lost: stored.lost })
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
        let ran = Ran { build_id: "ab12".into(), code: ranges.into_iter().collect(), lost: 3 };
        ran.store(&directory.path().join(COVERAGE)).unwrap();
        assert_eq!(Ran::load(directory.path(), COVERAGE).unwrap(), Some(ran));
    }

    #[test]
    fn a_damaged_file_is_an_error() {
        let stored = |schema, ranges| Stored { schema, build_id: "ab12".into(), lost: 0, ranges };
        let check = |stored: &Stored, expect: &str| {
            let error = parse(&postcard::to_stdvec(stored).unwrap()).unwrap_err();
            assert!(format!("{error:#}").contains(expect), "{error:#}");
        };
        check(&stored(9, vec![]), "schema 9");
        check(&stored(1, vec![(u64::MAX, 4)]), "overflow");
        assert!(parse(&[1, 0, 200]).is_err());
        assert!(parse(&[]).is_err());
    }
}
