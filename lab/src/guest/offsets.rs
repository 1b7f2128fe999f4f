//! File offsets of a workload's functions, by which uprobes are defined.

use crate::{scenario::UserPlace, words::nearest_is};
use fs_err as fs;
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
use std::{collections::BTreeSet, path::Path};

/// Returns the offset of `place` in the file of `program`, in bytes. `program` is the file in the guest,
/// without symbols; next to it, with `.debug` appended to the name, is the same program with symbols.
///
/// # Errors
/// The program cannot be read, the symbol does not exist or has several addresses, or the place is not
/// in the file.
pub(crate) fn offset_of(program: &Path, place: &UserPlace) -> Result<u64, String> {
    let with_symbols = program.with_extension("debug");
    let read = |path: &Path| fs::read(path).map_err(|error| error.to_string());
    let (stripped, symbols) = (read(program)?, read(&with_symbols)?);
    let address = address_of(&symbols, place)?.saturating_add(place.offset);
    let no_elf = |error| format!("`{}` is not an ELF file: {error}", program.display());
    let file = object::File::parse(&*stripped).map_err(no_elf)?;
    let in_segment = |segment: &object::Segment<'_, '_>| {
        let (offset, size) = segment.file_range();
        address.checked_sub(segment.address()).filter(|inside| *inside < size).map(|inside| offset + inside)
    };
    let offset = file.segments().find_map(|segment| in_segment(&segment));
    offset.ok_or_else(|| format!("`{place}` is not in the file of `{}`", place.program))
}

fn address_of(symbols: &[u8], place: &UserPlace) -> Result<u64, String> {
    let (program, name) = (&place.program, &place.symbol);
    let file =
        object::File::parse(symbols).map_err(|error| format!("`{program}` is not an ELF file: {error}"))?;
    let functions = || {
        let functions = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text);
        functions.filter_map(|symbol| Some((symbol.name().ok()?.to_owned(), symbol.address())))
    };
    let found: BTreeSet<u64> = functions().filter(|(other, _)| other == name).map(|(_, at)| at).collect();
    match (found.len(), found.first()) {
        (1, Some(address)) => Ok(*address),
        (0, _) => {
            let names: Vec<String> = functions().map(|(name, _)| name).collect();
            let near = nearest_is(name, &names);
            Err(format!("`{name}` is not a function of the workload `{program}`{near}"))
        }
        (number, _) => {
            Err(format!("the workload `{program}` has {number} functions `{name}`, expected a name of one"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::FromText;

    #[test]
    fn what_is_no_program_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("eventfd");
        let place = UserPlace::from_text("eventfd:main").unwrap();
        let error = offset_of(&program, &place).unwrap_err();
        assert!(error.contains("failed to open file"), "{error}");
        for path in [program.clone(), program.with_extension("debug")] {
            fs::write(path, "#!/bin/sh").unwrap();
        }
        let error = offset_of(&program, &place).unwrap_err();
        assert!(error.contains("is not an ELF file"), "{error}");
    }

    /// Reads this test program: its symbols must give the offsets of its own code.
    #[test]
    fn a_function_is_found_in_its_file() {
        let own = std::env::current_exe().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("own");
        fs::copy(&own, &program).unwrap();
        fs::copy(&own, program.with_extension("debug")).unwrap();
        let offset = offset_of(&program, &UserPlace::from_text("own:main").unwrap()).unwrap();
        let further = offset_of(&program, &UserPlace::from_text("own:main+4").unwrap()).unwrap();
        assert_eq!(further, offset + 4);
        let bytes = fs::read(&own).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let main = file.symbols().find(|symbol| symbol.name() == Ok("main")).unwrap();
        let text = file.segments().find(|segment| {
            segment.address() <= main.address() && main.address() < segment.address() + segment.size()
        });
        let code = text.unwrap().data_range(main.address(), 16).unwrap().unwrap();
        assert_eq!(&bytes[offset as usize..][..16], code);
        let error = offset_of(&program, &UserPlace::from_text("own:maim").unwrap()).unwrap_err();
        assert!(
            error.contains("`maim` is not a function of the workload `own`; the nearest is `main`"),
            "{error}"
        );
    }
}
