//! The layout of the kernel's structures, from the BTF of vmlinux.

use crate::host::{confine::Reach, process::Tool};
use anyhow::{Context, Result};
use std::path::Path;

/// A structure as pahole prints it.
pub(super) struct Structure(String);

impl Structure {
    /// Reads `struct NAME` of the kernel in `vmlinux`.
    ///
    /// # Errors
    /// pahole fails, for example because vmlinux has no BTF.
    pub(super) fn of(vmlinux: &Path, name: &str) -> Result<Structure> {
        let reach = Reach::new(vmlinux.parent().unwrap_or(vmlinux));
        let tool = Tool::new("pahole").confined(reach).args(["-F", "btf", "-C", name]).arg(vmlinux);
        let printed =
            tool.run().with_context(|| format!("cannot read `struct {name}` of `{}`", vmlinux.display()))?;
        Ok(Structure(printed))
    }

    /// Returns the offset of a member, in bytes: `kprobe_opcode_t *  addr;  /*    40     8 */`.
    pub(super) fn offset(&self, member: &str) -> Option<u64> {
        self.0.lines().find_map(|line| {
            let (declaration, place) = line.split_once(';')?;
            let name = declaration.split_whitespace().last()?.trim_start_matches('*');
            let place = place.trim().strip_prefix("/*")?;
            (name == member).then(|| place.split_whitespace().next()?.parse().ok())?
        })
    }

    /// Returns its size in bytes: `/* size: 24, cachelines: 1, members: 4 */`.
    pub(super) fn size(&self) -> Option<u64> {
        self.0.lines().find_map(|line| line.trim().strip_prefix("/* size: ")?.split(',').next()?.parse().ok())
    }
}

#[cfg(test)]
impl From<&str> for Structure {
    fn from(printed: &str) -> Structure {
        Structure(printed.to_owned())
    }
}
