//! The contents of the guest: agent, initramfs, workloads and modules, built from `guest/`.
//!
//! Everything is built once and kept in the cache. If nothing changed, neither cargo nor a compiler
//! runs.

mod agent;
mod busybox;
mod dkms;
pub mod initramfs;
mod modules;
mod offsets;
mod package;
mod programs;
mod recipe;
mod script_modules;
mod selftests;
mod systemtap;
mod toolchain;
mod userland;
mod workloads;

pub(crate) use busybox::BUSYBOX;
pub(crate) use modules::sources as module_sources;
pub(crate) use modules::{FoundModule, find_module};
pub use modules::{Module, Modules, is_kernel_tree, source_name};
pub(crate) use offsets::offset_of;
pub(crate) use package::Package;
pub use programs::Programs;
pub use selftests::{Content, Selftests, Suite};
pub(crate) use toolchain::{host_cargo_build, host_toolchain};
pub use userland::{Tree, Userlands};
pub use workloads::OwnWorkloads;

use crate::{
    cache::Cache,
    context::Lab,
    host::{confine::Reach, process::Tool},
    kernel::Kernel,
    scenario::{ModuleRef, Scenario},
};
use anyhow::{Context, Result, bail};
use std::{
    borrow::Cow,
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// The C compiler for the guest, and the linker of the agent.
const CROSS_GCC: &str = "aarch64-linux-gnu-gcc";

/// Removes symbols from programs and modules for the guest.
const CROSS_STRIP: &str = "aarch64-linux-gnu-strip";

/// The option with which a module keeps the symbols that the kernel needs.
const STRIP_DEBUG: [&str; 1] = ["--strip-debug"];

/// The parts of a guest.
#[derive(Clone, Debug)]
pub struct Guest {
    /// The agent's program.
    pub agent: PathBuf,
    /// The initramfs whose /init is the agent.
    pub initramfs: PathBuf,
    /// The programs of `guest/workloads` by name: static aarch64 executables without symbols. Next to
    /// each, with `.debug` appended to the name, is the same program with symbols.
    pub workloads: BTreeMap<String, PathBuf>,
    /// Workloads that scenarios bring, built when one needs them.
    pub own_workloads: OwnWorkloads,
    /// Kernel modules, built for a kernel when a scenario needs them.
    pub modules: Modules,
    /// Third-party programs, built for a userland when a scenario needs them.
    pub programs: Programs,
    /// Debian userlands, fetched when a scenario needs one.
    pub userlands: Userlands,
    /// The kernel's selftests, built for a kernel when a scenario needs them.
    pub selftests: Selftests,
    /// The plugin of QEMU that notes which code runs, if a scenario needs it.
    pub plugin: Option<PathBuf>,
    /// Whether all machines have it.
    pub measures: bool,
    /// Whether the CPUs of an emulated machine take turns on one host thread.
    pub in_turn: bool,
    /// Whether the output of each step is stored.
    pub keeps_output: bool,
}

/// Builds the guest's part of the checkout.
pub fn build(lab: &Lab) -> Result<Guest> {
    build_beside(lab, &lab.root.join("guest"))
}

/// Like [`build`], but takes only the agent from the checkout. Workloads, modules and the rest are those
/// of the directory `sources`, which has the layout of `guest/`.
pub fn build_beside(lab: &Lab, sources: &Path) -> Result<Guest> {
    let compiler = cross_gcc_version()?;
    let agent = agent::build(lab, &compiler)?;
    let initramfs = initramfs::of_init(&lab.cache, &agent)?;
    let workloads = workloads::build(lab, &sources.join("workloads"), &compiler)?;
    let own_workloads = OwnWorkloads::new(lab, sources.join("workloads"), compiler);
    let modules = Modules::new(lab, sources.join("modules"));
    let programs = Programs::new(lab, sources.join("programs"));
    let userlands = Userlands::new(lab, sources.join("userland"));
    let selftests = Selftests::new(lab, &sources.join("selftests"), &modules);
    Ok(Guest {
        agent,
        initramfs,
        workloads,
        own_workloads,
        modules,
        programs,
        userlands,
        selftests,
        plugin: None,
        measures: false,
        in_turn: false,
        keeps_output: true,
    })
}

/// The workload that mounts a userland with modules.
const USERLAND_INIT: &str = "userland-init";

impl Guest {
    /// Returns the guest with the workloads that the scenario brings, built if necessary, and with [`BUSYBOX`] if
    /// that runs its scripts. A workload that it brings hides one of `guest/workloads` of the same name.
    pub fn with_workloads_of(&self, scenario: &Scenario) -> Result<Cow<'_, Guest>> {
        let own = scenario.own_workloads();
        let shell = scenario.needs_busybox();
        if own.is_empty() && !shell {
            return Ok(Cow::Borrowed(self));
        }
        let mut guest = self.clone();
        for (name, source) in own {
            let program = self.own_workloads.build(source, &scenario.directory)?;
            guest.workloads.insert(name.to_owned(), program);
        }
        if shell {
            guest.workloads.insert(BUSYBOX.to_owned(), self.own_workloads.busybox()?);
        }
        Ok(Cow::Owned(guest))
    }

    /// Returns the initramfs for this kernel: the common one, or one with the modules that the kernel needs
    /// to boot, followed by those in the files `more`.
    pub fn initramfs_for(&self, kernel: &Kernel, more: &[PathBuf]) -> Result<PathBuf> {
        let modules = [kernel.boot_modules()?.as_slice(), more].concat();
        if modules.is_empty() {
            return Ok(self.initramfs.clone());
        }
        initramfs::with_modules(self.userlands.cache(), &self.agent, &modules)
    }

    /// Returns the initramfs that mounts a userland, if this kernel cannot do that itself.
    pub(crate) fn userland_initramfs(&self, kernel: &Kernel) -> Result<Option<PathBuf>> {
        if kernel.mounts_userland() {
            return Ok(None);
        }
        let modules = kernel.userland_modules()?;
        let Some(init) = self.workloads.get(USERLAND_INIT) else { bail!("no workload `{USERLAND_INIT}`") };
        initramfs::with_modules(self.userlands.cache(), init, &modules).map(Some)
    }
}

/// Checks the sources of the modules and workloads that a scenario brings, as far as no build is necessary.
///
/// # Errors
/// They do not exist, lead out of their directory, or are too large.
pub fn check_sources(scenario: &Scenario) -> Result<()> {
    for module in scenario.modules() {
        if let ModuleRef::Source { directory: path, .. } = module {
            module_sources::foreign(&scenario.directory.join(&path))
                .with_context(|| format!("cannot read the module `{}`", path.display()))?;
        }
    }
    for source in scenario.own_workloads().values() {
        module_sources::program(source, &scenario.directory)
            .with_context(|| format!("cannot read the workload `{}`", source.path().display()))?;
    }
    Ok(())
}

/// Returns an initramfs whose /init is the workload `name`: a guest without an agent.
pub fn bare(cache: &Cache, guest: &Guest, name: &str) -> Result<PathBuf> {
    let Some(program) = guest.workloads.get(name) else { bail!("no workload `{name}`") };
    initramfs::of_init(cache, program)
}

/// Writes the program or module `from`, which is a regular file, without symbols to `to`.
fn strip(options: &[&str], from: &Path, to: &Path) -> Result<()> {
    Tool::new(CROSS_STRIP)
        .args(options)
        .arg("-o")
        .arg(to)
        .arg(from)
        .confined(Reach::new(to.parent().unwrap_or(to)).reading([from]))
        .run()
        .map(drop)
        .with_context(|| format!("cannot strip `{}`", from.display()))
}

/// Returns the version output of the cross compiler, which includes the distribution's build.
fn cross_gcc_version() -> Result<String> {
    Tool::new(CROSS_GCC).arg("--version").env("LC_ALL", "C").run().with_context(|| {
        format!(
            "cannot run `{CROSS_GCC}`, the compiler for the guest; install the package gcc-aarch64-linux-gnu"
        )
    })
}
