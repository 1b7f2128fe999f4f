//! `lab cache --keep`.

use super::Victim;
use crate::{
    stage::{cache, root, scratch, share_host, xtask},
    tree::{Tree, restore, tree, unfinished},
};
use lab::{Lab, kernel};
use std::{
    fs,
    path::{Path, PathBuf},
};

#[test]
fn a_cache_that_is_pruned_has_whole_entries() {
    let _host = share_host();
    let directory = scratch();
    let real = Lab::open(root()).unwrap();
    let identity = kernel::identify(&real, kernel::DEFAULT).unwrap();
    let own = ["agent-target", "apt", "builds", "snapshots", "sources", "vmlinux"];
    let (kept, place) = (directory.path().join("kept"), directory.path().join("cache"));
    let made = cache(directory.path(), &own, true);
    let build = format!("builds/{}/output", identity.key);
    let resolved = identity.remembered.strip_prefix(real.cache.root()).unwrap();
    for file in [
        &format!("{build}/vmlinux"),
        &format!("{build}/fork.o"),
        "builds/other/output/vmlinux",
        "builds/other/stamp.json",
        "snapshots/booted/ram",
        "snapshots/booted/.manifest",
    ] {
        write(&made.join(file));
    }
    for number in 0..20 {
        write(&made.join(format!("sources/other/tree/{number}.c")));
    }
    write(&made.join("sources/other/.manifest"));
    fs::copy(&identity.remembered, made.join(resolved)).unwrap();
    fs::rename(&made, &kept).unwrap();
    let full = tree(&kept);
    let command = || {
        let mut prune = xtask();
        prune.args(["lab", "cache", "--keep", kernel::DEFAULT]).env("FTRACE_LAB_CACHE", &place);
        prune
    };
    let left = || tree(&place);
    let is_needed = |path: &Path| path.starts_with(format!("{build}/vmlinux")) || path == resolved;
    let killed = || {
        let left = left();
        for entry in ["builds/other", "sources/other", "snapshots/booted"] {
            let of = |tree: &Tree| tree.keys().filter(|path| path.starts_with(entry)).count();
            assert!(of(&left) == 0 || of(&left) == of(&full), "half of {entry} is left");
        }
        assert!(full.iter().all(|(path, content)| !is_needed(path) || left.get(path) == Some(content)));
    };
    let done = || {
        let left = left();
        assert!(
            !left.keys().any(|path| path.ends_with("other") || path.ends_with("booted")),
            "{:?}",
            left.keys()
        );
        assert!(full.keys().all(|path| !is_needed(path) || left.contains_key(path)));
        assert_eq!(unfinished(&place), Vec::<PathBuf>::new());
    };
    let before = || restore(&kept, &place);
    Victim { command: &command, place: &place, before: &before, killed: &killed, done: &done }.check(10);
}

fn write(file: &Path) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, "content").unwrap();
}
