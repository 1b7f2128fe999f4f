//! File operations as in a shell: echo, cat, ls, mkdir, rm; and files pushed in chunks.

use crate::{
    refusal::{Refusal, Refused},
    vectored::{read, write_all},
};
use protocol::{MAX_FRAME, WriteMode};
use rustix::{
    fd::IntoRawFd,
    fs::{Mode, OFlags, open},
    io::Errno,
};
use std::{
    borrow::Cow,
    fs,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

/// The base of relative paths.
const TRACEFS: &str = "/sys/kernel/tracing/";

/// The maximum number of content bytes in a reply; the rest of the frame is for its encoding.
pub(crate) const DATA_MAX: usize = MAX_FRAME - 1024;

/// The size of a read, in bytes; a record of /dev/kmsg must fit.
const CHUNK: usize = 64 * 1024;

/// Returns the full path: one that does not start with `/` is relative to tracefs.
pub(crate) fn resolve(path: &str) -> Cow<'_, str> {
    if path.starts_with('/') { path.into() } else { format!("{TRACEFS}{path}").into() }
}

/// Writes like a shell's `echo`: one write, and another for the rest after a short one, since the
/// filter files of tracefs take a word at a time. An error of close is also reported.
pub(crate) fn write_file(path: &str, data: &[u8], mode: WriteMode) -> Result<(), Refusal> {
    let flags = match mode {
        WriteMode::Truncate => OFlags::TRUNC,
        WriteMode::Append => OFlags::APPEND,
    };
    let flags = flags | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = open(&*resolve(path), flags, Mode::empty()).refused("open", path)?;
    write_all(&file, data).refused("write", path)?;
    // SAFETY: the descriptor was owned by `file` and is not used again.
    unsafe { rustix::io::try_close(file.into_raw_fd()) }.refused("close", path)
}

/// Reads the first bytes of a file, at most `max` or what fits a reply. Never waits: from files such
/// as trace_pipe or /dev/kmsg it returns what is available.
pub(crate) fn read_file(path: &str, max: u32) -> Result<Vec<u8>, Refusal> {
    let max = (max as usize).min(DATA_MAX);
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = open(&*resolve(path), flags, Mode::empty()).refused("open", path)?;
    let mut data = Vec::new();
    let mut chunk = vec![0; CHUNK.min(max)];
    while data.len() < max {
        let want = chunk.len().min(max - data.len());
        match read(&file, &mut chunk[..want]) {
            Ok(0) | Err(Errno::AGAIN) => break,
            Ok(n) => data.extend_from_slice(&chunk[..n]),
            // EPIPE: the next record of /dev/kmsg was overwritten; continue after it.
            Err(Errno::INTR | Errno::PIPE) => {}
            // EINVAL: the next record of /dev/kmsg is larger than the remaining room.
            Err(Errno::INVAL) if !data.is_empty() => break,
            Err(errno) => return Err(Refusal::new(format!("read {path}"), errno)),
        }
    }
    Ok(data)
}

/// Lists the names in a directory, sorted, directories and links to them with a trailing `/`.
pub(crate) fn list(path: &str) -> Result<Vec<String>, Refusal> {
    let full = resolve(path);
    let mut names = Vec::new();
    let mut room = DATA_MAX;
    for entry in fs::read_dir(&*full).refused("list", path)? {
        let entry = entry.refused("list", path)?;
        let mut name = entry.file_name().to_string_lossy().into_owned();
        if fs::metadata(entry.path()).is_ok_and(|data| data.is_dir()) {
            name.push('/');
        }
        // Each name is preceded by its length, which takes at most two bytes.
        room = match room.checked_sub(name.len() + 2) {
            Some(room) => room,
            None => return Err(Refusal::new(format!("list {path}"), Errno::OVERFLOW)),
        };
        names.push(name);
    }
    names.sort_unstable();
    Ok(names)
}

/// Creates a directory and its parents; an existing one is not an error.
pub(crate) fn make_directory(path: &str) -> Result<(), Refusal> {
    fs::create_dir_all(&*resolve(path)).refused("mkdir", path)
}

/// Removes a file, a link, or an empty directory.
pub(crate) fn remove(path: &str) -> Result<(), Refusal> {
    let full = resolve(path);
    if fs::symlink_metadata(&*full).refused("stat", path)?.is_dir() {
        fs::remove_dir(&*full).refused("rmdir", path)
    } else {
        fs::remove_file(&*full).refused("unlink", path)
    }
}

/// Appends a chunk to a file; the chunk at offset 0 creates the file and its directory.
pub(crate) fn push(path: &str, mode: u32, offset: u64, data: &[u8]) -> Result<(), Refusal> {
    let full = resolve(path);
    let full = Path::new(&*full);
    let mut options = fs::OpenOptions::new();
    options.append(true);
    if offset == 0 {
        if let Some(directory) = full.parent() {
            fs::create_dir_all(directory).refused("mkdir", &directory.to_string_lossy())?;
        }
        // A running program cannot be written to, but its name can be reused.
        match fs::remove_file(full) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).refused("unlink", path);
            }
            _ => {}
        }
        options.create_new(true).mode(mode & 0o7777);
    }
    let file = options.open(full).refused("open", path)?;
    if offset == 0 {
        // The mode must not depend on the umask.
        let permissions = fs::Permissions::from_mode(mode & 0o7777);
        file.set_permissions(permissions).refused("chmod", path)?;
    } else if file.metadata().refused("stat", path)?.len() != offset {
        return Err(Refusal::new(format!("push {path} at {offset}, not its end"), Errno::INVAL));
    }
    write_all(&file, data).refused("write", path)
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
