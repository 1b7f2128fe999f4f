//! The kernel code that a machine ran: the notes of the plugin in `lab/plugin`, in the machine's
//! directory while it runs.

use super::{MachineSpec, qemu};
use crate::kernel::text::INSTRUCTION;
use anyhow::{Context, Result, bail};
use fs_err::{self as fs, File};
use std::{
    io::{self, Read},
    ops::Range,
    path::Path,
};

/// The plugin's notes.
const NOTES: &str = "executed";

/// Their size, in bytes: scenarios translate up to 200,000 blocks. The file is sparse.
const LENGTH: u64 = 16 << 20;

/// The size of a word of the notes, in bytes.
const WORD: usize = size_of::<u64>();

/// The number of low bits of a word that are those of an address of the kernel; the others are set.
const ADDRESS_BITS: u32 = 48;

/// The blocks of code that a machine ran.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Executed {
    /// The addresses of each block, in the order of the first run. A block may be listed again, blocks may
    /// overlap, and the addresses of a block that was not stored in time are empty.
    pub(crate) blocks: Vec<Range<u64>>,
    /// The number of blocks that did not fit the notes.
    pub(crate) lost: u64,
}

/// Returns QEMU's arguments for the plugin of the machine, if it has one, and creates its notes.
pub(super) fn arguments(spec: &MachineSpec, directory: &Path) -> Result<Vec<String>> {
    let Some(plugin) = &spec.plugin else { return Ok(Vec::new()) };
    let notes = directory.join(NOTES);
    File::create(&notes)?.set_len(LENGTH)?;
    Ok(qemu::plugin(plugin, &notes))
}

/// Moves the notes of a machine to another directory. QEMU keeps writing to them.
pub(super) fn move_to(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from.join(NOTES), to.join(NOTES)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        moved => moved,
    }
}

/// Returns the number of blocks that a machine has noted so far; 0 if it makes no notes.
pub(super) fn noted(directory: &Path) -> u64 {
    let mut count = [0; WORD];
    // The notes are only missing if nothing is measured.
    let read = File::open(directory.join(NOTES)).and_then(|mut file| file.read_exact(&mut count));
    read.map_or(0, |()| u64::from_ne_bytes(count))
}

/// Returns the notes of a machine that runs.
pub(super) fn so_far(directory: &Path) -> Result<Executed> {
    let path = directory.join(NOTES);
    parse(&read_used(&path)?).with_context(|| format!("`{}`", path.display()))
}

/// Takes the notes of a machine that has ended out of its directory; `None` if it made none.
pub(crate) fn executed(directory: &Path) -> Result<Option<Executed>> {
    let path = directory.join(NOTES);
    if !path.is_file() {
        return Ok(None);
    }
    let notes = read_used(&path)?;
    fs::remove_file(&path)?;
    parse(&notes).map(Some).with_context(|| format!("`{}`", path.display()))
}

/// Reads the words of the notes that are in use; most of the file is a hole.
fn read_used(path: &Path) -> Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut notes = vec![0; WORD];
    file.read_exact(&mut notes)?;
    let count = u64::from_ne_bytes(notes.as_slice().try_into()?);
    file.take(count.saturating_mul(WORD as u64).min(LENGTH)).read_to_end(&mut notes)?;
    Ok(notes)
}

fn parse(notes: &[u8]) -> Result<Executed> {
    let mut words = notes.as_chunks::<WORD>().0.iter().map(|word| u64::from_ne_bytes(*word));
    let Some(count) = words.next() else { bail!("it is empty") };
    let stored = count.min(words.len() as u64);
    // A block that was counted when QEMU was killed may not be stored yet.
    let blocks = words.take(stored as usize).map(|word| if word == 0 { 0..0 } else { block(word) }).collect();
    Ok(Executed { blocks, lost: count - stored })
}

fn block(word: u64) -> Range<u64> {
    let start = word | u64::MAX << ADDRESS_BITS;
    let length = (word >> ADDRESS_BITS) * INSTRUCTION;
    start..start.saturating_add(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_in_the_notes() {
        let notes = |words: &[u64]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let first = 0x8000_8001_0000 | 3 << ADDRESS_BITS;
        let second = 0x8000_8002_0000 | 1 << ADDRESS_BITS;
        let ranges =
            [0xffff_8000_8001_0000..0xffff_8000_8001_000c, 0xffff_8000_8002_0000..0xffff_8000_8002_0004];
        let check = |words: &[u64], expect: &[Range<u64>], lost| {
            let expect = Executed { blocks: expect.to_vec(), lost };
            assert_eq!(parse(&notes(words)).unwrap(), expect);
        };
        check(&[2, first, second, 0], &ranges, 0);
        check(&[2, 0, second, 0], &[0..0, ranges[1].clone()], 0);
        check(&[9, first, second], &ranges, 7);
        check(&[0, first], &[], 0);
        assert!(parse(&[]).is_err());
    }

    #[test]
    fn only_what_is_used_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(NOTES);
        let words = [1, 7 | 2 << ADDRESS_BITS, 5];
        let notes: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_ne_bytes()).collect();
        fs::write(&path, &notes).unwrap();
        assert_eq!(read_used(&path).unwrap(), notes[..2 * WORD]);
        assert_eq!(noted(directory.path()), 1);
        assert_eq!(executed(directory.path()).unwrap().unwrap().blocks.len(), 1);
        assert!(!path.exists());
        fs::write(&path, b"short").unwrap();
        assert!(executed(directory.path()).is_err());
    }

    #[test]
    fn a_machine_without_a_plugin_makes_no_notes() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(executed(directory.path()).unwrap(), None);
        assert_eq!(noted(directory.path()), 0);
        move_to(directory.path(), Path::new("/nowhere")).unwrap();
    }
}
