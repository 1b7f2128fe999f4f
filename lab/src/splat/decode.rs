//! Adds files and lines to frames, from the DWARF of vmlinux and modules.
//!
//! No file is opened unless there is a splat. Files are mapped, and of the DWARF of vmlinux only the
//! units that contain a frame are parsed in full.

use super::{Frame, SourceLine, Splat, elf::Elf};
use crate::kernel::text::{Slice, map};
use anyhow::{Context, Result};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path, PathBuf},
};

/// The files with debug information for a guest's kernel.
#[derive(Clone, Debug, Default)]
pub struct Binaries {
    /// The kernel with DWARF, if it has any.
    pub vmlinux: Option<PathBuf>,
    /// Modules with DWARF, by the kernel's names.
    pub modules: BTreeMap<String, PathBuf>,
    /// Directories to remove from the names of source files.
    pub roots: Vec<PathBuf>,
}

/// The maximum depth of inlined functions at one address.
const INLINED_MAX: usize = 32;

/// Adds source lines to the frames of `splats`. A frame that is not found gets none.
///
/// # Errors
/// A file is missing or not an ELF file. Frames in the other files are decoded anyway.
pub fn decode(splats: &mut [Splat], binaries: &Binaries) -> Result<()> {
    let mut modules: BTreeSet<Option<String>> = BTreeSet::new();
    for splat in splats.iter() {
        modules.extend(splat.frames.iter().map(|frame| frame.module.clone()));
    }
    let mut first = Ok(());
    for module in modules {
        let path = match &module {
            None => binaries.vmlinux.as_ref(),
            Some(name) => binaries.modules.get(name),
        };
        let Some(path) = path else { continue };
        let decoded = decode_of(splats, module.as_deref(), path, &binaries.roots)
            .with_context(|| format!("cannot decode with `{}`", path.display()));
        first = first.and(decoded);
    }
    first
}

/// Decodes the frames that are in one file.
fn decode_of(splats: &mut [Splat], module: Option<&str>, path: &Path, roots: &[PathBuf]) -> Result<()> {
    let map = map(path)?;
    let elf = Elf::parse(&map)?;
    let wanted: BTreeSet<String> = splats
        .iter()
        .flat_map(|splat| &splat.frames)
        .filter(|frame| frame.module.as_deref() == module)
        .map(|frame| frame.symbol.clone())
        .collect();
    let mut symbols: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
    for (name, address, size) in elf.functions() {
        if wanted.contains(name) {
            symbols.entry(name).or_default().push((address, size));
        }
    }
    let lines = addr2line::Context::from_dwarf(elf.dwarf()?).context("cannot read its DWARF")?;
    for splat in splats {
        let pc = splat.registers.get("pc").cloned().unwrap_or_default();
        for (index, frame) in splat.frames.iter_mut().enumerate() {
            if frame.module.as_deref() != module {
                continue;
            }
            let Some(address) = address(symbols.get(frame.symbol.as_str()), frame) else { continue };
            let exact = index == 0 && pc.starts_with(&format!("{}+{:#x}/", frame.symbol, frame.offset));
            // Any other address is a return address; look up the call before it.
            let probe = if exact { address } else { address.saturating_sub(1) };
            // Without readable DWARF, this frame has no source lines.
            frame.places = places(&lines, probe, roots).unwrap_or_default();
        }
    }
    Ok(())
}

/// Returns a frame's address. Of several symbols with its name, the one with its size is used.
fn address(symbols: Option<&Vec<(u64, u64)>>, frame: &Frame) -> Option<u64> {
    let symbols = symbols?;
    let fitting = symbols.iter().find(|(_, size)| *size == frame.size).or(symbols.first());
    fitting.and_then(|(address, _)| address.checked_add(frame.offset))
}

fn places(lines: &addr2line::Context<Slice<'_>>, address: u64, roots: &[PathBuf]) -> Result<Vec<SourceLine>> {
    let mut found = Vec::new();
    let mut frames = lines.find_frames(address).skip_all_loads()?;
    while let Some(frame) = frames.next()?
        && found.len() < INLINED_MAX
    {
        let function = frame.function.as_ref().and_then(|function| function.raw_name().ok());
        let (file, line) = match &frame.location {
            Some(location) => (location.file.unwrap_or_default(), location.line.unwrap_or_default()),
            None => continue,
        };
        found.push(SourceLine {
            function: function.unwrap_or_default().into_owned(),
            file: shortened(file, roots),
            line,
        });
    }
    Ok(found)
}

/// Returns the name of a source file without `..`, and without the first matching directory of `roots`.
pub(crate) fn shortened(file: &str, roots: &[PathBuf]) -> String {
    let mut path = PathBuf::new();
    for part in Path::new(file).components() {
        match part {
            Component::ParentDir if path.parent().is_some() => {
                path.pop();
            }
            part => path.push(part),
        }
    }
    let short = roots.iter().find_map(|root| path.strip_prefix(root).ok());
    short.unwrap_or(&path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_as_in_the_kernels_tree() {
        let roots = ["/c/builds/k/output".into(), "/c/sources/k/tree".into()];
        let check = |file, expect: &str| assert_eq!(shortened(file, &roots), expect);
        check("/c/builds/k/output/../../../sources/k/tree/fs/read_write.c", "fs/read_write.c");
        check("/c/builds/k/output/guest/modules/deaths/deaths.c", "guest/modules/deaths/deaths.c");
        check("/elsewhere/x.c", "/elsewhere/x.c");
        check("x.c", "x.c");
    }

    #[test]
    fn of_symbols_of_one_name_the_one_of_the_right_size_is_meant() {
        let frame = |size| Frame { symbol: "f".into(), offset: 8, size, module: None, places: Vec::new() };
        let symbols = vec![(0x1000, 0x20), (0x2000, 0x40)];
        let check = |size, expect| assert_eq!(address(Some(&symbols), &frame(size)), expect);
        check(0x40, Some(0x2008));
        check(0x20, Some(0x1008));
        check(0x99, Some(0x1008));
        assert_eq!(address(None, &frame(1)), None);
    }

    #[test]
    fn what_is_no_elf_file_is_an_error_and_the_splats_stay() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("vmlinux");
        std::fs::write(&path, "no ELF").unwrap();
        let mut splats = super::super::find("BUG: x\nCall trace:\n f+0x1/0x2\n");
        let before = splats.clone();
        let binaries = Binaries { vmlinux: Some(path), ..Binaries::default() };
        let error = decode(&mut splats, &binaries).unwrap_err();
        assert!(format!("{error:#}").contains("it is not an ELF file"), "{error:#}");
        assert_eq!(splats, before);
    }
}
