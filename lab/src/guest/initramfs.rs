//! An initramfs in cpio's newc format. Identical entries give identical bytes: times are 0, and inode
//! numbers are consecutive.
//!
//! It is not compressed: decompression would cost an emulated guest more than copying.

use crate::cache::{Cache, KeyBuilder};
use anyhow::{Context, Result};
use fs_err as fs;
use std::{
    io::Write,
    path::{Path, PathBuf},
};
use tempfile::NamedTempFile;

/// Raised when the entries of [`of_init`] or [`with_modules`], or their format, change.
const LAYOUT: &str = "2";

/// An entry. Paths have no leading `/`, and directories precede their contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A directory with mode 0755.
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
        /// Its contents, less than 4 GiB.
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

/// Returns the initramfs with these entries.
pub fn write(entries: &[Entry]) -> Vec<u8> {
    let mut archive = Vec::new();
    // Start at inode 1: some readers treat 0 specially.
    for (inode, entry) in (1..).zip(entries) {
        let (mode, device, path, data): (_, _, _, &[u8]) = match entry {
            Entry::Directory { path } => (0o040_755, (0, 0), path, b""),
            Entry::File { path, mode, data } => (0o100_000 | mode, (0, 0), path, data),
            Entry::CharacterDevice { path, mode, major, minor } => {
                (0o020_000 | mode, (*major, *minor), path, b"")
            }
        };
        append(&mut archive, Node { inode, mode, device }, path, data);
    }
    append(&mut archive, Node { inode: 0, mode: 0, device: (0, 0) }, "TRAILER!!!", b"");
    archive
}

/// Returns the entries of a guest whose /init is `init`.
pub fn entries(init: Vec<u8>) -> Vec<Entry> {
    let mut entries: Vec<Entry> =
        ["dev", "proc", "run", "sys", "tmp"].map(|path| Entry::Directory { path: path.into() }).into();
    // The kernel opens it as stdin, stdout and stderr of init, before anything is mounted.
    entries.push(Entry::CharacterDevice { path: "dev/console".into(), mode: 0o600, major: 5, minor: 1 });
    entries.push(Entry::File { path: "init".into(), mode: 0o755, data: init });
    entries
}

/// Returns an initramfs in the cache whose /init is the program in the file `init`.
pub fn of_init(cache: &Cache, init: &Path) -> Result<PathBuf> {
    let program = fs::read(init)?;
    let key = KeyBuilder::default().input("layout", LAYOUT).input("init", &program).finish("initramfs");
    let name = "initramfs.cpio";
    let entry = cache.entry(
        "initramfs",
        &key,
        || {},
        |into| Ok(fs::write(into.join(name), write(&entries(program)))?),
    )?;
    Ok(entry.join(name))
}

/// The directory of the modules that the agent loads, sorted by name, before it opens its port.
const BOOT: &str = "boot";

/// Like [`of_init`], but with the kernel modules in the files `modules`, which the agent loads in this
/// order. Their paths in the cache identify their contents, so an existing initramfs is found without
/// reading them.
pub fn with_modules(cache: &Cache, init: &Path, modules: &[PathBuf]) -> Result<PathBuf> {
    let bytes = |path: &Path| path.as_os_str().as_encoded_bytes().to_vec();
    let key = KeyBuilder::default().input("layout", LAYOUT).input("init", bytes(init));
    let key = modules.iter().fold(key, |key, module| key.input("module", bytes(module)));
    let name = "initramfs.cpio";
    let fill = |into: &Path| {
        let mut entries = entries(fs::read(init)?);
        entries.push(Entry::Directory { path: BOOT.into() });
        for (index, module) in modules.iter().enumerate() {
            let name = module.file_name().unwrap_or_default().to_string_lossy();
            let path = format!("{BOOT}/{index:02}-{name}");
            entries.push(Entry::File { path, mode: 0o644, data: fs::read(module)? });
        }
        Ok(fs::write(into.join(name), write(&entries))?)
    };
    Ok(cache.entry("initramfs", &key.finish("initramfs"), || {}, fill)?.join(name))
}

/// Writes the initramfs `archive` with a bootconfig appended to a file in `directory`, which is removed when
/// the returned value is dropped.
pub fn with_bootconfig(archive: &Path, bootconfig: &str, directory: &Path) -> Result<NamedTempFile> {
    let mut data = fs::read(archive)?;
    append_bootconfig(&mut data, bootconfig);
    let cannot = || format!("cannot write an initramfs to `{}`", directory.display());
    let mut file = NamedTempFile::new_in(directory).with_context(cannot)?;
    file.write_all(&data).with_context(cannot)?;
    Ok(file)
}

/// Appends a bootconfig as in Documentation/admin-guide/bootconfig.rst:
/// `[initrd][bootconfig][padding][size(le32)][checksum(le32)][#BOOTCONFIG\n]`. The size includes the
/// padding, the checksum is the sum of that many bytes, and the total is a multiple of four.
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

/// The fields of a newc header that an entry has besides its name and its size.
struct Node {
    inode: u32,
    /// Type and permission bits.
    mode: u32,
    /// Major and minor number.
    device: (u32, u32),
}

/// Appends a newc header with the name, and the contents, each padded to four bytes.
fn append(archive: &mut Vec<u8>, Node { inode, mode, device }: Node, path: &str, data: &[u8]) {
    let links = if mode & 0o170_000 == 0o040_000 { 2 } else { 1 };
    let fields = [
        inode,
        mode,
        0, // uid
        0, // gid
        links,
        0, // mtime
        data.len() as u32,
        0, // major of the device that contains it
        0, // minor of that device
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
        // Three bytes of 0x61 and one byte of padding: size 4, checksum 0x123.
        check(b"cpio", "aaa", b"cpioaaa\0\x04\0\0\0\x23\x01\0\0#BOOTCONFIG\n");
        check(b"cpio", "aaaa", b"cpioaaaa\x04\0\0\0\x84\x01\0\0#BOOTCONFIG\n");
        // Padding makes the total a multiple of four, not the bootconfig alone.
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
