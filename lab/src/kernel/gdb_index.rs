//! The vmlinux as gdb and crash read it fastest: with a `.gdb_index`, without which they look through
//! all of its debug information first. In an emulated guest that halves crash's attach.

use super::{Kernel, WITHOUT_VMLINUX};
use crate::{
    cache::{Cache, KeyBuilder},
    host::process::{Tool, which},
};
use anyhow::{Context, Result};
use std::path::PathBuf;

/// Reads files of any architecture.
pub const GDB: &str = "gdb-multiarch";

/// Writes them.
const OBJCOPY: &str = "aarch64-linux-gnu-objcopy";

/// The kernel's vmlinux with an index, or as it is where there is no gdb to make one.
pub fn indexed_vmlinux(cache: &Cache, kernel: &Kernel) -> Result<PathBuf> {
    let vmlinux = kernel.vmlinux().context(WITHOUT_VMLINUX)?;
    if which(GDB).is_none() {
        return Ok(vmlinux);
    }
    let key = KeyBuilder::default().input("kernel", &kernel.key).finish(&format!("{}-indexed", kernel.name));
    let entry = cache.entry(
        "vmlinux",
        &key,
        || {},
        |into| {
            let indexed = || -> Result<()> {
                let save = ["-nx", "--batch", "-ex", "save gdb-index ."];
                Tool::new(GDB).args(save).arg(&vmlinux).directory(into).run()?;
                let index = into.join("vmlinux.gdb-index");
                let section = format!(".gdb_index={}", index.display());
                Tool::new(OBJCOPY)
                    .args(["--add-section", &section, "--set-section-flags", ".gdb_index=readonly"])
                    .arg(&vmlinux)
                    .arg(into.join("vmlinux"))
                    .run()?;
                Ok(std::fs::remove_file(index)?)
            };
            indexed().with_context(|| format!("cannot make an index of `{}`", vmlinux.display()))
        },
    )?;
    Ok(entry.join("vmlinux"))
}
