//! The agent, built with cargo for the guest.

use super::toolchain::Toolchain;
use crate::{
    cache::{Cache, Key, KeyBuilder},
    progress::Progress,
};
use anyhow::{Context, Result};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The package, its profile, and its program.
const PACKAGE: &str = "agent";

/// All that is built, below the repository's root: files, and directories of files.
const SOURCES: [&str; 4] = ["Cargo.toml", "Cargo.lock", "guest/agent", "guest/protocol"];

/// The agent's program in the cache, built if its sources or the toolchain have changed, of which the
/// cross compiler, by its version, is a part: it links, and brings the C library.
pub(super) fn build(cache: &Cache, root: &Path, compiler: &str, progress: &Progress) -> Result<PathBuf> {
    let toolchain = Toolchain::find(cache, progress)?;
    let key = key(root, &format!("{} {compiler}", toolchain.identity()))?;
    let waiting = || progress.line("another lab is building the agent; waiting");
    let entry = cache.entry("agent", &key, waiting, |into| {
        let _task = progress.task("building the agent", None);
        // Kept, so that a change of the agent does not build its dependencies again. A checkout has its
        // own: to cargo, equal packages of two checkouts in one directory are one and the same.
        let label = KeyBuilder::default()
            .input("toolchain", toolchain.identity())
            .input("root", root.as_os_str().as_encoded_bytes())
            .finish("target");
        let target = cache.directory(&format!("agent-target/{}", label.as_str()))?;
        toolchain.cargo_build(root, PACKAGE, &target).run().context("cannot build the agent")?;
        let built = toolchain.built(&target, PACKAGE);
        fs::copy(&built, into.join(PACKAGE))
            .with_context(|| format!("cannot copy `{}` into the cache", built.display()))?;
        Ok(())
    })?;
    Ok(entry.join(PACKAGE))
}

fn key(root: &Path, toolchain: &str) -> Result<Key> {
    let mut files = Vec::new();
    for source in SOURCES {
        collect(&root.join(source), &mut files)?;
    }
    let mut key = KeyBuilder::default().input("toolchain", toolchain);
    for file in files {
        let text = fs::read(&file).with_context(|| format!("cannot read `{}`", file.display()))?;
        let name = file.strip_prefix(root).unwrap_or(&file);
        key = key.input(&name.to_string_lossy(), text);
    }
    Ok(key.finish(PACKAGE))
}

/// The files at and below `path`, in the order of their names.
fn collect(path: &Path, into: &mut Vec<PathBuf>) -> Result<()> {
    if !path.is_dir() {
        into.push(path.to_owned());
        return Ok(());
    }
    let listed = || format!("cannot list `{}`", path.display());
    let mut inside = Vec::new();
    for entry in fs::read_dir(path).with_context(listed)? {
        inside.push(entry.with_context(listed)?.path());
    }
    inside.sort();
    inside.iter().try_for_each(|path| collect(path, into))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_is_keyed_by_its_sources_and_the_toolchain() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for name in ["Cargo.toml", "Cargo.lock", "guest/agent/src/main.rs", "guest/protocol/src/lib.rs"] {
            write(name, name);
        }
        let one = key(root.path(), "rust 1").unwrap();
        write("lab/src/lib.rs", "not the agent's");
        assert_eq!(one, key(root.path(), "rust 1").unwrap());
        assert_ne!(one, key(root.path(), "rust 2").unwrap());
        write("guest/protocol/src/lib.rs", "changed");
        assert_ne!(one, key(root.path(), "rust 1").unwrap());
        fs::remove_file(root.path().join("Cargo.lock")).unwrap();
        let error = format!("{:#}", key(root.path(), "rust 1").unwrap_err());
        assert!(error.contains("Cargo.lock"), "{error}");
    }
}
