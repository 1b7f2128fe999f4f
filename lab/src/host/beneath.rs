//! Opens files in directories that others wrote, without following links: results of another machine, or
//! the output of a build. A link in them could name any file of this host. Only the directory itself may be
//! a link.

use anyhow::{Context, Result, bail};
use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2},
    io::Errno,
};
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};
use trace::Trace;

/// Opens the regular file `name` in `directory`.
pub fn open_beneath(directory: &Path, name: impl AsRef<Path>) -> io::Result<File> {
    // Opening a FIFO for reading would otherwise block until it has a writer.
    let file = open(directory, name.as_ref(), OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
    if !file.metadata()?.is_file() {
        return Err(refusal(io::ErrorKind::InvalidInput, directory, name.as_ref(), "not a regular file"));
    }
    Ok(file)
}

/// Returns the path of the directory `name` in `directory`.
pub(crate) fn directory_beneath(directory: &Path, name: impl AsRef<Path>) -> io::Result<PathBuf> {
    open(directory, name.as_ref(), OFlags::PATH | OFlags::DIRECTORY)?;
    Ok(directory.join(name))
}

/// Reads the file `name` of at most `max_bytes` in `directory`.
pub(crate) fn read_beneath(directory: &Path, name: impl AsRef<Path>, max_bytes: u64) -> Result<Vec<u8>> {
    capped(open_beneath(directory, &name)?, max_bytes, &directory.join(name))
}

/// Opens the trace `name` in `directory`.
pub fn trace_beneath(directory: &Path, name: impl AsRef<Path>) -> Result<Trace> {
    Trace::of_file(open_beneath(directory, &name)?, &directory.join(name))
}

/// Reads a file of at most `max_bytes`, opened at `path`.
pub(crate) fn capped(file: impl Read, max_bytes: u64, path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(max_bytes + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read `{}`", path.display()))?;
    if bytes.len() as u64 > max_bytes {
        bail!("`{}` is larger than {} MiB", path.display(), max_bytes >> 20);
    }
    Ok(bytes)
}

fn open(directory: &Path, name: &Path, flags: OFlags) -> io::Result<File> {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let none = Mode::empty();
    let opened = openat(CWD, directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, none)
        .and_then(|directory| openat2(directory, name, flags | OFlags::CLOEXEC, none, beneath));
    opened.map(File::from).map_err(|error| {
        let cause = match error {
            Errno::LOOP => "it is a link or below one, and links there are not followed".to_owned(),
            Errno::XDEV => "it leads out of the directory".to_owned(),
            other => io::Error::from(other).to_string(),
        };
        refusal(io::Error::from(error).kind(), directory, name, &cause)
    })
}

fn refusal(kind: io::ErrorKind, directory: &Path, name: &Path, cause: &str) -> io::Error {
    io::Error::new(kind, format!("cannot open `{}`: {cause}", directory.join(name).display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn only_files_and_directories_in_the_results_are_opened() {
        let root = tempfile::tempdir().unwrap();
        let results = root.path().join("results");
        fs::create_dir_all(results.join("6.12/a")).unwrap();
        fs::write(results.join("6.12/a/trace.dat"), "trace").unwrap();
        fs::write(root.path().join("secret"), "secret").unwrap();
        symlink("../../../secret", results.join("6.12/a/link")).unwrap();
        symlink("trace.dat", results.join("6.12/a/near")).unwrap();
        symlink("..", results.join("6.12/up")).unwrap();
        symlink("results", root.path().join("latest")).unwrap();
        rustix::fs::mkfifoat(CWD, results.join("6.12/fifo"), Mode::RWXU).unwrap();
        let check = |name: &str, expect: &str| {
            let opened = open_beneath(&root.path().join("latest"), name);
            let text =
                opened.map_or_else(|error| error.to_string(), |file| io::read_to_string(file).unwrap());
            assert!(text.ends_with(expect), "{name}: {text}");
        };
        let link = "it is a link or below one, and links there are not followed";
        check("6.12/a/trace.dat", "trace");
        check("6.12/a/link", link);
        check("6.12/a/near", link);
        check("6.12/up/6.12/a/trace.dat", link);
        check("6.12/fifo", "not a regular file");
        check("6.12/a", "not a regular file");
        check("../secret", "it leads out of the directory");
        check(root.path().join("secret").to_str().unwrap(), "it leads out of the directory");
        check("6.12/none", "No such file or directory (os error 2)");
        assert!(directory_beneath(&results, "6.12/a").is_ok());
        for name in ["6.12/up", "6.12/up/6.12", "..", "6.12/a/trace.dat"] {
            directory_beneath(&results, name).unwrap_err();
        }
    }
}
