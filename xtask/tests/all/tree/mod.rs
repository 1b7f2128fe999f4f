//! The contents of directories, to be compared.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// What is below a directory, by relative path: the bytes of files, the targets of links.
pub(crate) type Tree = BTreeMap<PathBuf, Vec<u8>>;

/// Returns what is below `directory`; nothing if it does not exist.
pub(crate) fn tree(directory: &Path) -> Tree {
    let mut tree = Tree::new();
    collect(directory, directory, &mut tree);
    tree
}

fn collect(root: &Path, directory: &Path, tree: &mut Tree) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        let content = if kind.is_dir() {
            collect(root, &path, tree);
            Vec::new()
        } else if kind.is_symlink() {
            fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
        } else {
            fs::read(&path).unwrap()
        };
        tree.insert(path.strip_prefix(root).unwrap().to_owned(), content);
    }
}

/// Returns the names that only something unfinished has, below a directory.
pub(crate) fn unfinished(directory: &Path) -> Vec<PathBuf> {
    let is_unfinished =
        |path: &PathBuf| path.file_name().is_some_and(|name| is_temporary(&name.to_string_lossy()));
    tree(directory).into_keys().filter(is_unfinished).collect()
}

/// Returns whether a path, or a directory in it, has a temporary name.
pub(crate) fn is_below_temporary(path: &Path) -> bool {
    path.iter().any(|name| is_temporary(&name.to_string_lossy()))
}

fn is_temporary(name: &str) -> bool {
    let prefixes =
        [".partial-", ".tmp", ".latest-", ".running", ".making-", ".writing-", ".trace-", ".removed-"];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// Makes `to` a copy of the directory `from`.
pub(crate) fn restore(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}
