//! Finds a kernel's BTF: in a section of vmlinux, and somewhere in the boot image.

use crate::kernel::text::map;
use anyhow::{Context, Result};
use object::{Object, ObjectSection};
use std::path::Path;

/// The start of `struct btf_header` of a little-endian kernel: magic, version 1, no flags, 24 bytes long.
const BEGINNING: [u8; 8] = [0x9f, 0xeb, 1, 0, 24, 0, 0, 0];

/// The size of `struct btf_header`, in bytes.
const HEADER: usize = 24;

/// The alignment of the section, in bytes.
const ALIGNMENT: usize = 4;

/// Reads the `.BTF` section of an ELF file, which is mapped: the section is only a fiftieth of vmlinux.
pub(crate) fn in_elf(path: &Path) -> Result<Vec<u8>> {
    let read = || -> Result<Vec<u8>> {
        let map = map(path)?;
        let elf = object::File::parse(&map[..])?;
        let section = elf.section_by_name(".BTF").context("it was built without CONFIG_DEBUG_INFO_BTF")?;
        Ok(section.data()?.to_vec())
    };
    read().with_context(|| format!("cannot read the BTF of `{}`", path.display()))
}

/// Reads the BTF in an uncompressed boot image, which has no sections.
pub(crate) fn in_image(path: &Path) -> Result<Vec<u8>> {
    let map = map(path).with_context(|| format!("cannot read the BTF of `{}`", path.display()))?;
    let found = find(&map).with_context(|| format!("`{}` contains no BTF", path.display()))?;
    Ok(found.to_vec())
}

/// Returns the largest piece with a BTF header: that of the kernel, not of a test of BTF.
fn find(image: &[u8]) -> Option<&[u8]> {
    let begins = |at: &usize| image[*at..].starts_with(&BEGINNING);
    let places = (0..image.len().saturating_sub(HEADER)).step_by(ALIGNMENT).filter(begins);
    places.filter_map(|at| whole(&image[at..])).max_by_key(|found| found.len())
}

/// Returns the BTF that begins with this header, if it is complete: types, immediately followed by
/// names.
fn whole(bytes: &[u8]) -> Option<&[u8]> {
    let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    let (types, types_length) = (word(8)?, word(12)?);
    let (names, names_length) = (word(16)?, word(20)?);
    let follow = types == 0 && names == types_length && types_length > 0 && names_length > 0;
    let end = HEADER.checked_add(usize::try_from(names.checked_add(names_length)?).ok()?)?;
    bytes.get(..end).filter(|_| follow)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds BTF with the given numbers of bytes of types and names, all of them `fill`.
    fn btf(types: u32, names: u32, fill: u8) -> Vec<u8> {
        let mut bytes = BEGINNING.to_vec();
        [0, types, types, names].iter().for_each(|word: &u32| bytes.extend(word.to_le_bytes()));
        bytes.resize(bytes.len() + (types + names) as usize, fill);
        bytes
    }

    #[test]
    fn the_largest_whole_piece_is_the_kernels() {
        let cut = [&btf(100, 100, 3)[..60], &[0; 40]].concat();
        let kernel = btf(12, 8, 2);
        let image = [&[0; 64][..], &btf(4, 4, 1), &[0; 32], &kernel, &cut].concat();
        assert_eq!(find(&image), Some(&kernel[..]));
        assert_eq!(find(&cut), None);
        assert_eq!(find(&[0; 256]), None);
        assert_eq!(find(&BEGINNING), None);
        // It must be aligned.
        assert_eq!(find(&[&[0; 6][..], &kernel].concat()), None);
    }
}
