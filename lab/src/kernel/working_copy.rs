//! A copy of a kernel's source, in which one file at a time is changed.
//!
//! It consists of hard links, and a changed file replaces its link, so the source is not modified. Its path
//! never changes: kbuild compiles only what a change affects.

use super::{
    Kernel,
    source::fetched,
    source_tree::{Source, hard_links},
};
use crate::{
    cache::{KeyBuilder, Lock},
    context::Lab,
    host::{beneath::read_beneath, whole::write_whole},
};
use anyhow::{Context, Result, bail, ensure};
use fs_err as fs;
use std::path::{Path, PathBuf};

/// The largest source file of the kernel that is not generated has 700 kB.
const FILE_LIMIT_BYTES: u64 = 4 << 20;

/// A copy of a kernel's source, used by this process alone.
#[derive(Debug)]
pub struct WorkingCopy {
    original: PathBuf,
    copy: Source,
    _lock: Lock,
}

impl WorkingCopy {
    /// Returns the copy of the source of `kernel`, without changes.
    pub fn of(lab: &Lab, kernel: &Kernel) -> Result<WorkingCopy> {
        if kernel.is_distribution() {
            bail!("the kernel `{}` is a distribution kernel and has no source", kernel.name);
        }
        if kernel.is_pulled() {
            bail!(
                "the kernel `{}` was pulled from a registry, without its whole source: unset {}, remove `{}`, and it \
                 is built here",
                kernel.name,
                super::REGISTRY_VARIABLE,
                kernel.directory.parent().unwrap_or(&kernel.directory).display()
            );
        }
        let original = kernel.source.clone();
        let path = original.as_os_str().as_encoded_bytes();
        let key = KeyBuilder::default().input("copy of", path).finish("working-copy");
        let waiting = || lab.progress.line("waiting for another process that is changing this kernel source");
        let lock = lab.cache.lock(key.as_str(), waiting)?;
        let copy = fetched(lab, &key, &kernel.source_version, |into| {
            let _task = lab.progress.task("copying the kernel source", None);
            hard_links(&original, &into.join("tree"))
        })?;
        let copy = WorkingCopy { original, copy, _lock: lock };
        // A killed process may have left a change.
        copy.restore()?;
        Ok(copy)
    }

    /// The copy, for [`build`](super::build).
    pub fn directory(&self) -> &Path {
        &self.copy.directory
    }

    /// Returns the original text of a file.
    pub fn original(&self, file: &str) -> Result<String> {
        let bytes = read_beneath(&self.original, file, FILE_LIMIT_BYTES)?;
        String::from_utf8(bytes).with_context(|| format!("`{file}` is not text"))
    }

    /// Changes the text of a file, and undoes the change before.
    pub fn change(&self, file: &str, text: &str) -> Result<()> {
        self.restore()?;
        // Also checks that the file exists and that its path leads nowhere else.
        ensure!(self.original(file)? != text, "the new text of `{file}` is that of the original");
        write_whole(&self.journal(), file)?;
        write_whole(&self.directory().join(file), text)
    }

    /// Undoes the change. The file gets a new time, so that it is compiled again.
    pub fn restore(&self) -> Result<()> {
        let journal = self.journal();
        if !journal.exists() {
            return Ok(());
        }
        let file = fs::read_to_string(&journal)?;
        write_whole(&self.directory().join(&file), self.original(&file)?)?;
        Ok(fs::remove_file(&journal)?)
    }

    /// Has the name of the changed file.
    fn journal(&self) -> PathBuf {
        self.directory().with_file_name("changed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_change_leaves_the_source_as_it_is_and_is_undone() {
        let place = tempfile::tempdir().unwrap();
        let original = place.path().join("source");
        let copy = place.path().join("entry/tree");
        for directory in [&original.join("kernel"), &place.path().join("entry")] {
            fs::create_dir_all(directory).unwrap();
        }
        for file in ["kernel/a.c", "kernel/b.c"] {
            fs::write(original.join(file), "int x;\n").unwrap();
        }
        hard_links(&original, &copy).unwrap();
        let lab = Lab::alone(place.path()).unwrap();
        let copy = WorkingCopy {
            original: original.clone(),
            copy: Source {
                directory: copy.clone(),
                version: "6.12.1".parse().unwrap(),
                label: String::new(),
                key: String::new(),
                headers: None,
                lease: None,
            },
            _lock: lab.cache.lock("copy", || {}).unwrap(),
        };
        let read = |directory: &Path, file: &str| fs::read_to_string(directory.join(file)).unwrap();
        copy.change("kernel/a.c", "int y;\n").unwrap();
        assert_eq!(read(copy.directory(), "kernel/a.c"), "int y;\n");
        assert_eq!(read(&original, "kernel/a.c"), "int x;\n");
        copy.change("kernel/b.c", "int z;\n").unwrap();
        assert_eq!(read(copy.directory(), "kernel/a.c"), "int x;\n");
        copy.restore().unwrap();
        assert_eq!(read(copy.directory(), "kernel/b.c"), "int x;\n");
        let inode = |directory: &Path| fs::metadata(directory.join("kernel/b.c")).unwrap().ino();
        assert_ne!(inode(copy.directory()), inode(&original), "a restored file must get a new time");
        for outside in ["../x.c", "/etc/passwd", "kernel", "kernel/c.c"] {
            assert!(copy.change(outside, "").is_err(), "{outside}");
        }
    }
}
