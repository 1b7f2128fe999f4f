//! The tools that shape a kernel beside its source and configuration: compiler, linker, pahole.

use super::source::write_atomically;
use crate::{
    cache::{Cache, KeyBuilder},
    host::process::{Tool, which},
};
use anyhow::{Context, Result};
use std::{fs, os::unix::fs::MetadataExt, path::Path};

/// What the names of the tools begin with. Debian has them under this name on arm64 hosts too.
pub(super) const PREFIX: &str = "aarch64-linux-gnu-";

/// What is asked for its version, and whether a kernel can be built without it.
const TOOLS: [(&str, bool); 3] =
    [("aarch64-linux-gnu-gcc", true), ("aarch64-linux-gnu-ld", true), ("pahole", false)];

/// The versions of the tools, a line each.
pub(super) fn versions(cache: &Cache) -> Result<String> {
    let mut lines = String::new();
    for (tool, needed) in TOOLS {
        match which(tool) {
            Some(path) => lines += &version(cache, tool, &path)?,
            None if needed => {
                return Err(anyhow::anyhow!("no `{tool}` on this machine; `cargo xtask doctor` says more"));
            }
            None => lines += &format!("no {tool}"),
        }
        lines.push('\n');
    }
    Ok(lines)
}

/// The first line of `tool --version`, asked again only when the file changed.
fn version(cache: &Cache, tool: &str, path: &Path) -> Result<String> {
    let data = path.metadata().with_context(|| format!("cannot look at `{}`", path.display()))?;
    let key = KeyBuilder::default()
        .input("path", path.as_os_str().as_encoded_bytes())
        .input("size", data.len().to_le_bytes())
        .input("mtime", data.mtime().to_le_bytes())
        .input("mtime_nsec", data.mtime_nsec().to_le_bytes())
        .finish(tool);
    let remembered = cache.directory("tools")?.join(key.as_str());
    if let Ok(version) = fs::read_to_string(&remembered)
        && !version.is_empty()
    {
        return Ok(version);
    }
    let output = Tool::new(path).arg("--version").env("LC_ALL", "C").run()?;
    let version = format!("{tool} {}", output.lines().next().unwrap_or_default());
    write_atomically(&remembered, &version)?;
    Ok(version)
}

/// The compiler, by way of ccache where that is installed.
pub(super) fn compiler() -> String {
    match which("ccache") {
        Some(_) => format!("ccache {PREFIX}gcc"),
        None => format!("{PREFIX}gcc"),
    }
}
