//! What runs in the guest: agent, initramfs, workloads and modules, built from `guest/`.
//!
//! Everything here is built once and kept in the cache; when nothing has changed, neither cargo nor
//! a compiler is started.

mod agent;
mod debian_rust;
pub mod initramfs;
mod modules;
mod offsets;
mod programs;
mod selftests;
mod toolchain;
mod userland;
mod workloads;

pub(crate) use modules::sources as module_sources;
pub use modules::{Module, Modules};
pub(crate) use offsets::offset_of;
pub use programs::Programs;
pub use selftests::{Content, Selftests, Suite};
pub use userland::{Tree, Userlands};

use crate::{cache::Cache, host::process::Tool, kernel::Kernel, progress::Progress};
use anyhow::{Context, Result, bail};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// The C compiler for the guest, and the linker of the agent.
const CROSS_GCC: &str = "aarch64-linux-gnu-gcc";

/// What a guest is made of.
#[derive(Clone, Debug)]
pub struct Guest {
    /// The agent's program.
    pub agent: PathBuf,
    /// The initramfs whose /init is the agent.
    pub initramfs: PathBuf,
    /// The programs of `guest/workloads` by name: static aarch64 executables without symbols. The
    /// same program with its symbols lies beside each, with `.debug` behind its name.
    pub workloads: BTreeMap<String, PathBuf>,
    /// Kernel modules, which are built for each kernel when a scenario asks for them.
    pub modules: Modules,
    /// Other people's programs, which are built for a userland when a scenario asks for one.
    pub programs: Programs,
    /// Whole userlands, which are fetched when a scenario asks for one.
    pub userlands: Userlands,
    /// The kernel's own tests, which are built for each kernel when a scenario asks for them.
    pub selftests: Selftests,
}

/// Builds the guest's part of the repository at `root`.
pub fn build(cache: &Cache, root: &Path, progress: &Progress) -> Result<Guest> {
    build_beside(cache, root, &root.join("guest"), progress)
}

/// The same with the agent alone from the repository; workloads, modules and the others are those of
/// the directory `sources`, which is laid out as `guest/`.
pub fn build_beside(cache: &Cache, root: &Path, sources: &Path, progress: &Progress) -> Result<Guest> {
    let compiler = cross_gcc_version()?;
    let agent = agent::build(cache, root, &compiler, progress)?;
    let initramfs = initramfs::of_init(cache, &agent)?;
    let workloads = workloads::build(cache, &sources.join("workloads"), &compiler, progress)?;
    let modules = Modules::new(cache, sources.join("modules"), progress);
    let programs = Programs::new(cache, sources.join("programs"), progress);
    let userlands = Userlands::new(cache, sources.join("userland"), progress);
    let selftests = Selftests::new(cache, &sources.join("selftests"), &modules, progress);
    Ok(Guest { agent, initramfs, workloads, modules, programs, userlands, selftests })
}

impl Guest {
    /// The initramfs for this kernel: that of all, or one with the modules that the kernel boots with and,
    /// behind them, those in the files `more`.
    pub fn initramfs_for(&self, kernel: &Kernel, more: &[PathBuf]) -> Result<PathBuf> {
        let modules = [kernel.boot_modules()?.as_slice(), more].concat();
        if modules.is_empty() {
            return Ok(self.initramfs.clone());
        }
        initramfs::with_modules(self.userlands.cache(), &self.agent, &modules)
    }
}

/// An initramfs whose /init is the workload `name`: a guest without an agent.
pub fn bare(cache: &Cache, guest: &Guest, name: &str) -> Result<PathBuf> {
    let Some(program) = guest.workloads.get(name) else { bail!("no workload is called `{name}`") };
    initramfs::of_init(cache, program)
}

/// The cross compiler's own words about its version, which name the distribution's build too.
fn cross_gcc_version() -> Result<String> {
    Tool::new(CROSS_GCC).arg("--version").env("LC_ALL", "C").run().with_context(|| {
        format!(
            "cannot run `{CROSS_GCC}`, which builds for the guest; Debian's package is gcc-aarch64-linux-gnu"
        )
    })
}
