//! Packages of the workspace that cargo builds into the cache: the agent, and the plugin of QEMU.

use crate::{
    cache::{Key, KeyBuilder},
    context::Lab,
    host::outage::of_cargo,
};
use anyhow::{Context, Result};
use fs_err as fs;
use std::path::{Path, PathBuf};

/// Files of the workspace that affect each of its packages.
const WORKSPACE: [&str; 2] = ["Cargo.toml", "Cargo.lock"];

/// A package, and all that its program is keyed by.
pub(crate) struct Package<'a> {
    /// Its name, and that of its entry in the cache.
    pub(crate) name: &'a str,
    /// Its sources below the repository's root: files and directories.
    pub(crate) sources: &'a [&'a str],
    /// Identifies the toolchain that builds it.
    pub(crate) toolchain: String,
}

impl Package<'_> {
    /// Returns the package's program in the cache. If its sources or the toolchain changed, `cargo` builds
    /// it below a directory, and returns the program's path.
    pub(crate) fn build(&self, lab: &Lab, cargo: impl FnOnce(&Path) -> Result<PathBuf>) -> Result<PathBuf> {
        let name = self.name;
        let waiting =
            || lab.progress.line(format!("waiting for another process that is building the {name}"));
        let entry = lab.cache.entry(name, &self.key(&lab.root)?, waiting, |into| {
            let _task = lab.progress.task(format!("building the {name}"), None);
            // Kept, so that a change of the package does not rebuild its dependencies. One per checkout:
            // cargo cannot distinguish equal packages of two checkouts in one target directory.
            let label = KeyBuilder::default()
                .input("toolchain", &self.toolchain)
                .input("root", lab.root.as_os_str().as_encoded_bytes())
                .finish("target");
            let target = lab.cache.directory(&format!("{name}-target/{}", label.as_str()))?;
            let built =
                cargo(&target).map_err(of_cargo).with_context(|| format!("cannot build the {name}"))?;
            fs::copy(&built, into.join(name))?;
            Ok(())
        })?;
        Ok(entry.join(name))
    }

    fn key(&self, root: &Path) -> Result<Key> {
        let mut files = Vec::new();
        for source in WORKSPACE.iter().chain(self.sources) {
            collect(&root.join(source), &mut files)?;
        }
        let mut key = KeyBuilder::default().input("toolchain", &self.toolchain);
        for file in files {
            let text = fs::read(&file)?;
            let name = file.strip_prefix(root).unwrap_or(&file);
            key = key.input(&name.to_string_lossy(), text);
        }
        Ok(key.finish(self.name))
    }
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
    fn a_package_is_keyed_by_its_sources_and_the_toolchain() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let sources = ["guest/agent", "guest/protocol"];
        let key = |root: &Path, toolchain: &str| {
            Package { name: "agent", sources: &sources, toolchain: toolchain.to_owned() }.key(root)
        };
        for name in ["Cargo.toml", "Cargo.lock", "guest/agent/src/main.rs", "guest/protocol/src/lib.rs"] {
            write(name, name);
        }
        let one = key(root.path(), "rust 1").unwrap();
        write("lab/src/lib.rs", "of another package");
        assert_eq!(one, key(root.path(), "rust 1").unwrap());
        assert_ne!(one, key(root.path(), "rust 2").unwrap());
        write("guest/protocol/src/lib.rs", "changed");
        assert_ne!(one, key(root.path(), "rust 1").unwrap());
        fs::remove_file(root.path().join("Cargo.lock")).unwrap();
        let error = format!("{:#}", key(root.path(), "rust 1").unwrap_err());
        assert!(error.contains("Cargo.lock"), "{error}");
    }
}
