//! A kernel's source tree, wherever it came from, and the version in its Makefile.

use super::{small_file::read_capped, version::KernelVersion};
use crate::{cache::Lease, host::process::Tool};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// The kernel's Makefile is 70 kB.
const MAKEFILE_LIMIT_BYTES: u64 = 4 << 20;

/// A source tree, ready to be built.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// The tree.
    pub(super) directory: PathBuf,
    /// The version in its Makefile.
    pub(super) version: KernelVersion,
    /// The version of its origin: `6.12.107-1`, a commit, or the version again.
    pub(super) label: String,
    /// Changes with the source.
    pub(super) key: String,
    /// Of a working tree, which is built incrementally: changes with what configuring the kernel and building
    /// modules for it read of the tree.
    pub(super) headers: Option<String>,
    /// Keeps it in the cache; `None` for a tree that is used in place.
    pub(super) lease: Option<Lease>,
}

/// Copies a tree by hard links. What changes the copy must replace its files.
pub(super) fn hard_links(from: &Path, to: &Path) -> Result<()> {
    Tool::new("cp").args(["--archive", "--link", "--"]).arg(from).arg(to).run()?;
    Ok(())
}

/// Returns the version in a tree's Makefile.
pub(super) fn version_of(tree: &Path) -> Result<KernelVersion> {
    let path = tree.join("Makefile");
    let text = read_capped(&path, MAKEFILE_LIMIT_BYTES)
        .with_context(|| format!("no kernel source in `{}`", tree.display()))?;
    version_in_makefile(&text)
        .with_context(|| format!("no kernel source in `{}`: its Makefile has no version", tree.display()))
}

fn version_in_makefile(text: &str) -> Option<KernelVersion> {
    let value = |name: &str| {
        let mut lines = text.lines().take(40);
        lines.find_map(|line| Some(line.strip_prefix(name)?.trim_start().strip_prefix('=')?.trim()))
    };
    let number = |name| value(name)?.parse().ok();
    let extra = value("EXTRAVERSION").unwrap_or_default();
    Some(KernelVersion {
        major: number("VERSION")?,
        minor: number("PATCHLEVEL")?,
        patch: number("SUBLEVEL")?,
        candidate: extra.strip_prefix("-rc").and_then(|number| number.parse().ok()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_makefile_gives_the_version() {
        let check = |text: &str, expect: Option<&str>| {
            assert_eq!(version_in_makefile(text).map(|version| version.to_string()).as_deref(), expect);
        };
        check(
            "# SPDX-License-Identifier: GPL-2.0\nVERSION = 7\nPATCHLEVEL = 2\nSUBLEVEL = 0\nEXTRAVERSION = -rc3\n",
            Some("7.2-rc3"),
        );
        check("VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 107\nEXTRAVERSION =\n", Some("6.12.107"));
        check("all:\n\tcc main.c\n", None);
    }
}
