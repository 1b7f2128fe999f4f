//! A vmlinux with a `.gdb_index`, without which gdb and crash scan all debug information when they
//! start. In an emulated guest the index halves the time that crash takes to attach.

use super::{Kernel, WITHOUT_VMLINUX};
use crate::{
    cache::{Cache, KeyBuilder},
    host::{
        confine::Reach,
        process::{Tool, which},
    },
};
use anyhow::{Context, Result};
use std::path::PathBuf;

/// A gdb that reads files of any architecture.
pub const GDB: &str = "gdb-multiarch";

/// Adds the index to the file.
const OBJCOPY: &str = "aarch64-linux-gnu-objcopy";

/// Returns the kernel's vmlinux with an index, or without one if [`GDB`] is not installed.
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
                let confined = |tool: &str| Tool::new(tool).confined(Reach::new(into).reading([&vmlinux]));
                confined(GDB).args(save).arg(&vmlinux).run()?;
                let index = into.join("vmlinux.gdb-index");
                let section = format!(".gdb_index={}", index.display());
                confined(OBJCOPY)
                    .args(["--add-section", &section, "--set-section-flags", ".gdb_index=readonly"])
                    .arg(&vmlinux)
                    .arg(into.join("vmlinux"))
                    .run()?;
                Ok(fs_err::remove_file(index)?)
            };
            indexed().with_context(|| format!("cannot make an index of `{}`", vmlinux.display()))
        },
    )?;
    Ok(entry.join("vmlinux"))
}
