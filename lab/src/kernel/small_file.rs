//! Small text files, read up to a limit.

use fs_err::File;
use std::{io, path::Path};

/// Reads a text file that must not be larger than `limit_bytes`.
pub(super) fn read_capped(path: &Path, limit_bytes: u64) -> io::Result<String> {
    let file = File::open(path)?;
    if file.metadata()?.len() > limit_bytes {
        let message = format!("`{}` is larger than {limit_bytes} bytes", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    io::read_to_string(file)
}
