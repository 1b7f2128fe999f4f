//! The mark of a cache directory, without which nothing in it is removed: `FTRACE_LAB_CACHE` may name a
//! directory that holds other things, too.
//!
//! A cache is marked when it is first opened, if everything in it is the lab's.

use fs_err as fs;
use std::{io, path::Path};

/// The file that marks a cache.
const MARK: &str = ".ftrace-lab-cache";

const MARK_TEXT: &str =
    "This is a cache of ftrace-lab. `cargo xtask lab cache --keep` removes what is in it.\n";

/// Tells backup programs that the directory is a cache.
const TAG: &str = "CACHEDIR.TAG";

const TAG_TEXT: &str = "Signature: 8a477f597d28d172789f06886806bc55\n\
                        # This is a cache of ftrace-lab; see https://bford.info/cachedir/.\n";

/// Everything that the lab creates in its cache, apart from the mark.
const NAMES: [&str; 34] = [
    "actionlint",
    "agent",
    "agent-target",
    "apt",
    "bench",
    "bisect",
    "boot-modules",
    "builds",
    "coverage",
    "crash",
    "dkms",
    "drgn",
    "drgn-history",
    "explore",
    "initramfs",
    "installed",
    "locks",
    "modules",
    "plugin",
    "plugin-target",
    "programs",
    "python",
    "scratch",
    "selftests",
    "snapshots",
    "sources",
    "symbols",
    "systemtap",
    "times.json",
    "toolchains",
    "tools",
    "userlands",
    "vmlinux",
    "workloads",
];

/// Returns whether the lab creates `name` in its cache.
pub(super) fn is_known(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Returns whether `name` is a file of the mark.
pub(super) fn is_mark(name: &str) -> bool {
    [MARK, TAG].contains(&name)
}

/// Returns whether the cache `root` is marked.
pub(super) fn is_marked(root: &Path) -> bool {
    root.join(MARK).is_file()
}

/// Marks the cache `root` unless it holds anything that is not the lab's.
pub(super) fn adopt(root: &Path) -> io::Result<()> {
    if is_marked(root) || foreign(root)?.is_some() {
        return Ok(());
    }
    fs::write(root.join(TAG), TAG_TEXT)?;
    fs::write(root.join(MARK), MARK_TEXT)
}

/// Returns the name of something in `root` that is not the lab's.
pub(super) fn foreign(root: &Path) -> io::Result<Option<String>> {
    let names = fs::read_dir(root)?.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    Ok(names.into_iter().find(|name| !is_known(name) && !is_mark(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_marked_if_everything_in_it_is_the_labs() {
        let check = |entries: &[&str], expect: bool| {
            let root = tempfile::tempdir().unwrap();
            entries.iter().for_each(|entry| fs::create_dir(root.path().join(entry)).unwrap());
            adopt(root.path()).unwrap();
            assert_eq!(is_marked(root.path()), expect, "{entries:?}");
            assert_eq!(root.path().join(TAG).exists(), expect, "{entries:?}");
            // Later, other things may be there.
            fs::create_dir(root.path().join("photos")).unwrap();
            adopt(root.path()).unwrap();
            assert_eq!(is_marked(root.path()), expect, "{entries:?}");
        };
        check(&[], true);
        check(&["builds", "sources", "locks"], true);
        check(&["builds", "mozilla"], false);
        check(&[".config"], false);
    }
}
