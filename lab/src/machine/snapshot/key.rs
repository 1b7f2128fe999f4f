//! The cache key of a snapshot, made of everything that affects it.

use super::super::{
    qemu::{self, Accelerator, MachineSpec, Memory, Sockets},
    version_text,
};
use crate::{
    cache::{Key, KeyBuilder, stamp},
    host::process::which,
};
use anyhow::{Context, Result};
use fs_err as fs;
use std::path::Path;

/// Increased when snapshots are made differently.
const FORMAT: &[u8] = b"1";

/// The QEMU that makes and restores snapshots, and the host it runs on.
#[derive(Debug)]
pub(super) struct Qemu {
    identity: String,
    accelerator: Accelerator,
}

impl Qemu {
    /// Returns the QEMU on `PATH`.
    pub(super) fn of_host() -> Result<Qemu> {
        let program = which(qemu::PROGRAM).with_context(|| format!("`{}` is not on PATH", qemu::PROGRAM))?;
        let version = version_text()?;
        let accelerator = Accelerator::of_host();
        let host = match accelerator {
            Accelerator::Tcg => String::new(),
            Accelerator::Kvm => host_cpu(),
        };
        let identity = format!("{}\n{version}\n{host}", stamp(&program)?);
        Ok(Qemu { identity, accelerator })
    }

    /// Returns the key of a machine's snapshot.
    pub(super) fn key(&self, spec: &MachineSpec) -> Result<Key> {
        // Descriptors and the path of the memory differ between machines.
        let sockets = Sockets { console: 0, agent: 0, monitor: 0 };
        let arguments = qemu::arguments(spec, self.accelerator, Memory::Kept(Path::new("")), sockets);
        let key = KeyBuilder::default()
            .input("format", FORMAT)
            .input("qemu", &self.identity)
            .input("accelerator", self.accelerator.name())
            .input("arguments", arguments.join("\0"))
            .input("prepared", format!("{:?}", super::PREPARED))
            .input("image", stamp(&spec.image)?)
            .input("initramfs", stamp(&spec.initramfs)?);
        Ok(key.finish("booted"))
    }
}

/// Returns the description of the host's CPU, which under KVM is also the guest's: the lines that
/// do not change between boots.
fn host_cpu() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let lines: Vec<_> = info.lines().filter(|line| line.starts_with("CPU ")).collect();
    lines.join("\n")
}
