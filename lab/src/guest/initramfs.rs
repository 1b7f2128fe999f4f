//! An initramfs in cpio's newc format, as the kernel unpacks it. Identical entries give identical
//! bytes: there are no times, and inode numbers count up.
//!
//! It is not compressed: unpacking would cost an emulated guest more than the copy does.

use crate::cache::{Cache, KeyBuilder};
use anyhow::{Context, Result};
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};
use tempfile::NamedTempFile;

/// Raised when the list of entries of [`of_init`] or [`with_modules`], or their format changes.
const LAYOUT: &str = "2";

/// One entry. Paths have no leading `/`, and parents come before what is in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A directory anyone may enter.
    Directory {
        /// Its path.
        path: String,
    },
    /// A file.
    File {
        /// Its path.
        path: String,
        /// Permission bits.
        mode: u32,
        /// Its content, less than 4 GiB.
        data: Vec<u8>,
    },
    /// A character device.
    CharacterDevice {
        /// Its path.
        path: String,
        /// Permission bits.
        mode: u32,
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
}

/// The initramfs of these entries.
pub fn write(entries: &[Entry]) -> Vec<u8> {
    let mut archive = Vec::new();
    // The first inode is 1: 0 has a meaning to some readers.
    for (inode, entry) in (1..).zip(entries) {
        match entry {
            Entry::Directory { path } => append(&mut archive, inode, 0o040_755, (0, 0), path, b""),
            Entry::File { path, mode, data } => {
                append(&mut archive, inode, 0o100_000 | mode, (0, 0), path, data);
            }
            Entry::CharacterDevice { path, mode, major, minor } => {
                append(&mut archive, inode, 0o020_000 | mode, (*major, *minor), path, b"");
            }
        }
    }
    append(&mut archive, 0, 0, (0, 0), "TRAILER!!!", b"");
    archive
}

/// The entries of a guest whose /init is `init`.
pub fn entries(init: Vec<u8>) -> Vec<Entry> {
    let mut entries: Vec<Entry> =
        ["dev", "proc", "run", "sys", "tmp"].map(|path| Entry::Directory { path: path.into() }).into();
    // The kernel opens it as init's stdin, stdout and stderr, before anything is mounted.
    entries.push(Entry::CharacterDevice { path: "dev/console".into(), mode: 0o600, major: 5, minor: 1 });
    entries.push(Entry::File { path: "init".into(), mode: 0o755, data: init });
    entries
}

/// An initramfs in the cache whose /init is the program in the file `init`.
pub fn of_init(cache: &Cache, init: &Path) -> Result<PathBuf> {
    let program = fs::read(init).with_context(|| format!("cannot read `{}`", init.display()))?;
    let key = KeyBuilder::default().input("layout", LAYOUT).input("init", &program).finish("initramfs");
    let name = "initramfs.cpio";
    let entry = cache.entry(
        "initramfs",
        &key,
        || {},
        |into| {
            let path = into.join(name);
            fs::write(&path, write(&entries(program)))
                .with_context(|| format!("cannot write `{}`", path.display()))
        },
    )?;
    Ok(entry.join(name))
}

/// Where the agent finds the modules that it loads before it looks for its port, by their order.
const BOOT: &str = "boot";

/// As [`of_init`], with the kernel modules in the files `modules`, which the agent loads in this order.
/// All of them are in the cache, where another content has another path: to find what is
/// made already, none is read.
pub fn with_modules(cache: &Cache, init: &Path, modules: &[PathBuf]) -> Result<PathBuf> {
    let bytes = |path: &Path| path.as_os_str().as_encoded_bytes().to_vec();
    let key = KeyBuilder::default().input("layout", LAYOUT).input("init", bytes(init));
    let key = modules.iter().fold(key, |key, module| key.input("module", bytes(module)));
    let name = "initramfs.cpio";
    let fill = |into: &Path| {
        let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read `{}`", path.display()));
        let mut entries = entries(read(init)?);
        entries.push(Entry::Directory { path: BOOT.into() });
        for (index, module) in modules.iter().enumerate() {
            let name = module.file_name().unwrap_or_default().to_string_lossy();
            let path = format!("{BOOT}/{index:02}-{name}");
            entries.push(Entry::File { path, mode: 0o644, data: read(module)? });
        }
        let path = into.join(name);
        fs::write(&path, write(&entries)).with_context(|| format!("cannot write `{}`", path.display()))
    };
    Ok(cache.entry("initramfs", &key.finish("initramfs"), || {}, fill)?.join(name))
}

/// A file in `directory`, gone when it is dropped: the initramfs `archive` with a bootconfig behind.
pub fn with_bootconfig(archive: &Path, bootconfig: &str, directory: &Path) -> Result<NamedTempFile> {
    let mut data = fs::read(archive).with_context(|| format!("cannot read `{}`", archive.display()))?;
    append_bootconfig(&mut data, bootconfig);
    let cannot = || format!("cannot write an initramfs to `{}`", directory.display());
    let mut file = NamedTempFile::new_in(directory).with_context(cannot)?;
    file.write_all(&data).with_context(cannot)?;
    Ok(file)
}

/// As Documentation/admin-guide/bootconfig.rst has it:
/// `[initrd][bootconfig][padding][size(le32)][checksum(le32)][#BOOTCONFIG\n]`, where the size has the
/// padding in it, the checksum is the sum of so many bytes, and the whole is a multiple of four.
fn append_bootconfig(archive: &mut Vec<u8>, bootconfig: &str) {
    let from = archive.len();
    archive.extend_from_slice(bootconfig.as_bytes());
    pad(archive);
    let size = (archive.len() - from) as u32;
    let checksum = archive[from..].iter().fold(0_u32, |sum, &byte| sum.wrapping_add(byte.into()));
    archive.extend_from_slice(&size.to_le_bytes());
    archive.extend_from_slice(&checksum.to_le_bytes());
    archive.extend_from_slice(b"#BOOTCONFIG\n");
}

/// One newc header, name and content, each padded to four bytes.
fn append(archive: &mut Vec<u8>, inode: u32, mode: u32, device: (u32, u32), path: &str, data: &[u8]) {
    let links = if mode & 0o170_000 == 0o040_000 { 2 } else { 1 };
    let fields = [
        inode,
        mode,
        0, // uid
        0, // gid
        links,
        0, // mtime
        data.len() as u32,
        0, // major of the device it is on
        0, // minor of the same
        device.0,
        device.1,
        path.len() as u32 + 1,
        0, // checksum, which newc does not have
    ];
    archive.extend_from_slice(b"070701");
    for field in fields {
        archive.extend_from_slice(format!("{field:08x}").as_bytes());
    }
    archive.extend_from_slice(path.as_bytes());
    archive.push(0);
    pad(archive);
    archive.extend_from_slice(data);
    pad(archive);
}

fn pad(archive: &mut Vec<u8>) {
    archive.resize(archive.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_header_a_name_and_a_content_each_padded() {
        let file = Entry::File { path: "init".into(), mode: 0o755, data: b"hello".into() };
        let archive = write(&[file]);
        let expect = "070701\
            00000001000081ed00000000000000000000000100000000\
            00000005\
            00000000000000000000000000000000\
            0000000500000000init\0\0hello\0\0\0\
            070701\
            00000000000000000000000000000000000000010000000000000000\
            00000000000000000000000000000000\
            0000000b00000000TRAILER!!!\0\0\0\0";
        assert_eq!(String::from_utf8(archive).unwrap(), expect);
    }

    #[test]
    fn a_device_has_its_numbers_and_a_directory_its_type() {
        let console = Entry::CharacterDevice { path: "dev/console".into(), mode: 0o600, major: 5, minor: 1 };
        let archive = String::from_utf8(write(&[Entry::Directory { path: "dev".into() }, console])).unwrap();
        assert!(archive.contains("00000001000041ed"), "{archive}");
        assert!(archive.contains("0000000200002180"), "{archive}");
        assert!(archive.contains("0000000500000001"), "{archive}");
    }

    #[test]
    fn a_bootconfig_stands_behind_the_archive_with_its_size_and_sum() {
        let check = |archive: &[u8], bootconfig: &str, expect: &[u8]| {
            let mut found = archive.to_vec();
            append_bootconfig(&mut found, bootconfig);
            assert_eq!(found, expect, "{bootconfig}");
            assert_eq!(found.len() % 4, 0);
        };
        // Three letters of 0x61 and one byte of padding: 4 bytes, 0x123 in all.
        check(b"cpio", "aaa", b"cpioaaa\0\x04\0\0\0\x23\x01\0\0#BOOTCONFIG\n");
        check(b"cpio", "aaaa", b"cpioaaaa\x04\0\0\0\x84\x01\0\0#BOOTCONFIG\n");
        // Padding makes the whole a multiple, not the bootconfig alone.
        check(b"cpi", "aaaa", b"cpiaaaa\0\x05\0\0\0\x84\x01\0\0#BOOTCONFIG\n");
    }

    #[test]
    fn equal_inputs_give_equal_bytes_and_another_init_another_file() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path().join("cache")).unwrap();
        let init = directory.path().join("init");
        let build = |program: &[u8]| {
            fs::write(&init, program).unwrap();
            of_init(&cache, &init).unwrap()
        };
        let one = build(b"one");
        assert_eq!(one, build(b"one"));
        let two = build(b"two");
        assert_ne!(one, two);
        assert_eq!(fs::read(one).unwrap(), write(&entries(b"one".into())));
        assert_eq!(fs::read(two).unwrap().len() % 4, 0);
    }
}
