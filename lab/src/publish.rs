//! Stores a kernel in a registry, once it has booted.

use crate::{
    context::Lab,
    guest,
    host::oci::Repository,
    kernel,
    machine::{BOOT_DEADLINE, Machine, machine_spec},
};
use anyhow::{Context, Result, bail};

/// A kernel that is in a registry.
#[derive(Clone, Debug)]
pub struct Pushed {
    /// The digest of its manifest.
    pub digest: String,
    /// The size of its files, compressed.
    pub bytes: usize,
}

/// Builds the kernel `name`, boots it, and stores it in `repository`.
///
/// # Errors
/// It does not boot; or it is a distribution kernel, which is downloaded anyway.
pub fn push(lab: &Lab, name: &str, repository: &Repository) -> Result<Pushed> {
    let kernel = kernel::build(lab, name, None)?;
    if kernel.is_distribution() {
        bail!("the kernel `{name}` is a distribution kernel: every machine downloads its packages");
    }
    let place = tempfile::tempdir_in(lab.cache.directory("symbols")?)?;
    let task = lab.progress.task(format!("booting the kernel {name}"), None);
    let spec = machine_spec(&kernel, &guest::build(lab)?)?;
    Machine::boot(&spec, place.path(), BOOT_DEADLINE)
        .with_context(|| format!("the kernel `{name}` does not boot, and is not pushed"))?;
    drop(task);
    let packed = kernel::pack(lab, &kernel)?;
    let bytes = packed.artifact.content.len();
    let _task = lab.progress.task(format!("pushing the kernel {name} ({} MB)", bytes / 1_000_000), None);
    Ok(Pushed { digest: repository.push(&packed.tags, packed.artifact)?, bytes })
}
