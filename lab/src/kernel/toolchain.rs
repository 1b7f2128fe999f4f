//! The tools that shape a kernel besides its source and configuration: compiler, linker, pahole.

use crate::{
    cache::{Cache, KeyBuilder},
    host::{
        process::{Tool, which},
        whole::write_whole,
    },
};
use anyhow::Result;
use fs_err as fs;
use std::{os::unix::fs::MetadataExt, path::Path};

/// The prefix of the tools' names. Debian uses it on arm64 hosts, too.
pub(super) const PREFIX: &str = "aarch64-linux-gnu-";

/// The tools whose versions enter the key, each with whether it is required to build a kernel.
const TOOLS: [(&str, bool); 3] =
    [("aarch64-linux-gnu-gcc", true), ("aarch64-linux-gnu-ld", true), ("pahole", false)];

/// Returns the versions of the tools, one per line.
pub(super) fn versions(cache: &Cache) -> Result<String> {
    let mut lines = String::new();
    for (tool, needed) in TOOLS {
        match which(tool) {
            Some(path) => lines += &version(cache, tool, &path)?,
            None if needed => {
                return Err(anyhow::anyhow!("cannot find `{tool}` on this host; run `cargo xtask doctor`"));
            }
            None => lines += &format!("no {tool}"),
        }
        lines.push('\n');
    }
    Ok(lines)
}

/// Returns the first line of `tool --version`, cached until the file changes.
fn version(cache: &Cache, tool: &str, path: &Path) -> Result<String> {
    let data = fs::metadata(path)?;
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
    write_whole(&remembered, &version)?;
    Ok(version)
}
