//! Reads and writes that do not go through `vfs_read()` and `vfs_write()`: of the kernel's functions these
//! are the ones that scenarios and modules hook first, and a hook that counts or keeps what it sees must see
//! the workload, not the agent.
//!
//! readv(2) and writev(2) reach the same functions of the file through `vfs_readv()` and `vfs_writev()`, in
//! fs/read_write.c of all kernels since 5.10. The one difference is that a transfer of no bytes does not
//! reach the file.

use rustix::{
    fd::AsFd,
    fs::{Mode, OFlags, open},
    io::{Errno, IoSlice, IoSliceMut},
};

/// The size of a read in [`read_to_string`], in bytes: a page, which no file that it is for exceeds.
const CHUNK: usize = 4096;

/// Like read(2).
pub(crate) fn read(file: impl AsFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    rustix::io::readv(file, &mut [IoSliceMut::new(buffer)])
}

/// Like pread(2).
pub(crate) fn read_at(file: impl AsFd, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    rustix::io::preadv(file, &mut [IoSliceMut::new(buffer)], offset)
}

/// Like write(2).
pub(crate) fn write(file: impl AsFd, data: &[u8]) -> Result<usize, Errno> {
    rustix::io::writev(file, &[IoSlice::new(data)])
}

/// Writes all of `data`, if it takes several writes; no data are one write.
pub(crate) fn write_all(file: impl AsFd, data: &[u8]) -> Result<(), Errno> {
    let mut rest = data;
    loop {
        match write(&file, rest) {
            Ok(n) => rest = rest.get(n..).unwrap_or_default(),
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno),
        }
        if rest.is_empty() {
            return Ok(());
        }
    }
}

/// Returns the text of a short file, as of a setting in sysfs.
pub(crate) fn read_to_string(path: &str) -> Result<String, Errno> {
    let file = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = Vec::new();
    let mut chunk = [0; CHUNK];
    loop {
        match read(&file, &mut chunk) {
            Ok(0) => return String::from_utf8(text).map_err(|_| Errno::ILSEQ),
            Ok(n) => text.extend_from_slice(&chunk[..n]),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_written_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let text = "0123456789abcdef".repeat(CHUNK / 8);
        write_all(fs::File::create(&path).unwrap(), text.as_bytes()).unwrap();
        assert_eq!(read_to_string(path.to_str().unwrap()), Ok(text));
        let mut three = [0; 3];
        assert_eq!(read_at(fs::File::open(&path).unwrap(), &mut three, 10), Ok(3));
        assert_eq!(&three, b"abc");
        assert_eq!(read_to_string("/no/such/file"), Err(Errno::NOENT));
        assert_eq!(read_to_string("/proc/self/mem"), Err(Errno::IO));
    }
}
