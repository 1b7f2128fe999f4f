//! Where the functions of a workload are in its file, which is what uprobes go by.

use crate::scenario::{UserPlace, nearest};
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
use std::{collections::BTreeSet, fs, path::Path};

/// The offset of `place` in the file of `program`, in bytes. `program` is as the guest has it,
/// without symbols; beside it lies the same with them, and `.debug` behind its name.
///
/// # Errors
/// A program that cannot be read, a symbol that it does not have or has at several addresses, and a
/// place that is not in its file.
pub(crate) fn offset_of(program: &Path, place: &UserPlace) -> Result<u64, String> {
    let with_symbols = program.with_extension("debug");
    let read =
        |path: &Path| fs::read(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()));
    let (stripped, symbols) = (read(program)?, read(&with_symbols)?);
    let address = address_of(&symbols, place)?.saturating_add(place.offset);
    let no_elf = |error| format!("`{}` is no ELF file: {error}", program.display());
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
        object::File::parse(symbols).map_err(|error| format!("`{program}` is no ELF file: {error}"))?;
    let functions = || {
        let functions = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text);
        functions.filter_map(|symbol| Some((symbol.name().ok()?.to_owned(), symbol.address())))
    };
    let found: BTreeSet<u64> = functions().filter(|(other, _)| other == name).map(|(_, at)| at).collect();
    match (found.len(), found.first()) {
        (1, Some(address)) => Ok(*address),
        (0, _) => {
            let names: Vec<String> = functions().map(|(name, _)| name).collect();
            let nearest = nearest(name, names.iter().map(String::as_str));
            let nearest = nearest.map(|name| format!("; the nearest is `{name}`")).unwrap_or_default();
            Err(format!("`{name}` is no function of the workload `{program}`{nearest}"))
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
        assert!(error.contains("cannot read"), "{error}");
        for path in [program.clone(), program.with_extension("debug")] {
            fs::write(path, "#!/bin/sh").unwrap();
        }
        let error = offset_of(&program, &place).unwrap_err();
        assert!(error.contains("is no ELF file"), "{error}");
    }

    /// This very test program: what its own symbols say is where its own code is.
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
            error.contains("`maim` is no function of the workload `own`; the nearest is `main`"),
            "{error}"
        );
    }
}
