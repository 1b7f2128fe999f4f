//! The tools that shape a kernel besides its source and configuration: compilers, linker, pahole.

use super::{compiler::Compiler, spec::KernelSpec};
use crate::{
    cache::{Cache, KeyBuilder},
    context::Lab,
    host::{
        debian_rust::{FOR_KERNELS, obtain},
        prerequisites,
        process::{Tool, which},
        whole::write_whole,
    },
};
use anyhow::Result;
use fs_err as fs;
use std::{os::unix::fs::MetadataExt, path::Path};

/// Writes BTF. A kernel without BTF is built without it.
const PAHOLE: &str = "pahole";

/// Returns the versions of the tools that build a kernel, one per line.
pub(super) fn of(lab: &Lab, spec: &KernelSpec) -> Result<String> {
    let rust = if spec.rust { obtain(lab, &FOR_KERNELS)?.identity } else { String::new() };
    Ok(versions(lab, spec.compiler)? + &rust)
}

/// Returns the versions of the tools that build modules, one per line.
pub(super) fn versions(lab: &Lab, compiler: Compiler) -> Result<String> {
    // Every command that builds has checked what gcc needs; only a missing program is worth another look.
    if compiler.programs().iter().any(|tool| which(tool).is_none()) {
        prerequisites::ensure(compiler.need(), lab.may_install, &lab.progress)?;
    }
    let mut lines = String::new();
    for &tool in compiler.programs().iter().chain([&PAHOLE]) {
        match which(tool) {
            Some(path) => lines += &version(&lab.cache, tool, &path)?,
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
