//! Punches holes in files for pages of zeros.

use rustix::{
    fs::{FallocateFlags, SeekFrom, fallocate, seek},
    io::Errno,
};
use std::{fs::OpenOptions, io, os::unix::fs::FileExt, path::Path};

/// The unit that is checked and freed: a multiple of every filesystem's block size.
const PAGE: usize = 64 << 10;

/// Frees the blocks of zero pages and syncs the file. A filesystem without support for holes keeps
/// them.
pub(super) fn punch_holes(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut page = [0; PAGE];
    let mut from = 0;
    loop {
        let data = match seek(&file, SeekFrom::Data(from)) {
            Ok(data) => data / PAGE as u64 * PAGE as u64,
            // No data after this offset.
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let count = file.read_at(&mut page, data)?;
        if count == 0 {
            break;
        }
        if page[..count].iter().all(|&byte| byte == 0) {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            match fallocate(&file, hole, data, count as u64) {
                Ok(()) => {}
                Err(Errno::OPNOTSUPP) => break,
                Err(error) => return Err(error.into()),
            }
        }
        from = data + count as u64;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::MetadataExt};

    #[test]
    fn zeros_take_no_room_and_the_rest_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let mut content = vec![0; 100 * PAGE + 5];
        content[PAGE + 1] = 1;
        content[100 * PAGE + 4] = 2;
        fs::write(&path, &content).unwrap();
        let before = fs::metadata(&path).unwrap().blocks();
        punch_holes(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), content);
        let after = fs::metadata(&path).unwrap().blocks();
        assert!(after * 10 < before, "{after} of {before} blocks");
    }
}
