//! The agent, built with cargo for the guest.

use super::toolchain::Toolchain;
use crate::{
    cache::{Key, KeyBuilder},
    context::Lab,
};
use anyhow::{Context, Result};
use fs_err as fs;
use std::path::{Path, PathBuf};

/// The package, its profile, and its program.
const PACKAGE: &str = "agent";

/// The sources below the repository's root: files and directories.
const SOURCES: [&str; 4] = ["Cargo.toml", "Cargo.lock", "guest/agent", "guest/protocol"];

/// Returns the agent's program in the cache, built if its sources or the toolchain changed. The version of
/// the cross compiler counts as part of the toolchain, since it links and provides the C library.
pub(super) fn build(lab: &Lab, compiler: &str) -> Result<PathBuf> {
    let toolchain = Toolchain::find(lab)?;
    let key = key(&lab.root, &format!("{} {compiler}", toolchain.identity()))?;
    let waiting = || lab.progress.line("waiting for another process that is building the agent");
    let entry = lab.cache.entry("agent", &key, waiting, |into| {
        let _task = lab.progress.task("building the agent", None);
        // Kept, so that a change of the agent does not rebuild its dependencies. One per checkout: cargo
        // cannot distinguish equal packages of two checkouts in one target directory.
        let label = KeyBuilder::default()
            .input("toolchain", toolchain.identity())
            .input("root", lab.root.as_os_str().as_encoded_bytes())
            .finish("target");
        let target = lab.cache.directory(&format!("agent-target/{}", label.as_str()))?;
        toolchain.cargo_build(&lab.root, PACKAGE, &target).run().context("cannot build the agent")?;
        let built = toolchain.built(&target, PACKAGE);
        fs::copy(&built, into.join(PACKAGE))?;
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
        let text = fs::read(&file)?;
        let name = file.strip_prefix(root).unwrap_or(&file);
        key = key.input(&name.to_string_lossy(), text);
    }
    Ok(key.finish(PACKAGE))
}

/// Collects the files at and below `path`, sorted by name.
fn collect(path: &Path, into: &mut Vec<PathBuf>) -> Result<()> {
    if !path.is_dir() {
        into.push(path.to_owned());
        return Ok(());
    }
    let mut inside: Vec<_> = fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
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
