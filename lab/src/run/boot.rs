//! A scenario's kernel → its machine, for scenarios that ask for a boot of their own.

use crate::{
    guest::{Guest, Module, initramfs},
    kernel::{Kernel, indexed_vmlinux},
    machine::{BOOT_DEADLINE, Death, Machine, MachineSpec, Userland},
    recording::VMLINUX,
    scenario::{Bootconfig, HOOK_MODULE, ProgramName, Scenario, Wanted, WantedUserland},
};
use anyhow::Result;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Boots a machine for one scenario.
pub(super) fn boot(
    mut spec: MachineSpec,
    bootconfig: Option<&Bootconfig>,
    directory: &Path,
) -> Result<Machine, Death> {
    let Some(bootconfig) = bootconfig else { return Machine::boot(&spec, directory, BOOT_DEADLINE) };
    // QEMU has read it by the time the agent answers; then it goes.
    let file = initramfs::with_bootconfig(&spec.initramfs, bootconfig.as_str(), directory);
    let file = file.map_err(Death::Lab)?;
    spec.initramfs = file.path().to_owned();
    Machine::boot(&spec, directory, BOOT_DEADLINE)
}

/// A CPU without 52-bit addresses, for kernels that would use them: with pages of 4 KiB, crash 8.0.6
/// then fails with "cannot access vmalloc'd module memory".
const CPU_OF_48_BITS: &str = "neoverse-n1";

/// Gives a machine that crash is to look at a CPU on which it can.
pub(super) fn fit_for_crash(spec: &mut MachineSpec, kernel: &Kernel) {
    if kernel.config().is_set("ARM64_VA_BITS_52") {
        spec.cpu = CPU_OF_48_BITS.to_owned();
    }
}

/// What crash reads: the kernel and its modules, with debug information.
pub(super) fn for_crash(
    kernel: &Kernel,
    guest: &Guest,
    modules: &BTreeMap<Wanted, Module>,
) -> Result<Vec<(String, PathBuf)>> {
    let vmlinux = indexed_vmlinux(guest.userlands.cache(), kernel)?;
    let modules = modules.values().map(|module| (format!("{}.ko", module.name), module.debug.clone()));
    Ok(modules.chain([(VMLINUX.to_owned(), vmlinux)]).collect())
}

/// Other people's programs that the scenario's scripts call, built for the userland in `tree`.
pub(super) fn programs(scenario: &Scenario, guest: &Guest, tree: &Path) -> Result<Vec<(String, PathBuf)>> {
    let build = |(name, libraries): (&ProgramName, &Vec<ProgramName>)| {
        Ok((name.to_string(), guest.programs.build(name, libraries, tree)?))
    };
    scenario.programs().map(build).collect()
}

/// Boots a machine with a whole userland.
pub(crate) fn boot_userland(
    spec: &MachineSpec,
    wanted: &WantedUserland,
    guest: &Guest,
    directory: &Path,
    shared: impl FnOnce(&Path) -> Result<Vec<(String, PathBuf)>>,
) -> Result<Machine, Death> {
    let tree = guest.userlands.tree(wanted).map_err(Death::Lab)?;
    let shared = shared(&tree.path).map_err(Death::Lab)?;
    let agent = guest.agent.clone();
    let userland = Userland { tree: tree.path, agent, memory: tree.memory, shared };
    Machine::boot_userland(spec, &userland, directory)
}

/// Addresses are those of System.map, and the same in each guest of a kernel.
const NOT_RELOCATED: &str = "nokaslr";

/// The machine a kernel's file asks for.
///
/// # Errors
/// The initramfs with the modules that the kernel boots with cannot be put together.
pub fn machine_spec(kernel: &Kernel, guest: &Guest) -> Result<MachineSpec> {
    Ok(machine_with(kernel, &guest.initramfs_for(kernel, &[])?))
}

/// The same, and for scenarios that hook functions with the module for that in from the start: it is
/// loaded once for a snapshot, instead of a fifth of a second under emulation in each of them.
pub(super) fn restored_spec(kernel: &Kernel, guest: &Guest, hooks: bool) -> Result<MachineSpec> {
    if !hooks {
        return machine_spec(kernel, guest);
    }
    let module = guest.modules.find(kernel, HOOK_MODULE)?;
    Ok(machine_with(kernel, &guest.initramfs_for(kernel, &[module.file])?))
}

/// The same with another initramfs.
pub(crate) fn machine_with(kernel: &Kernel, initramfs: &Path) -> MachineSpec {
    let machine = &kernel.spec.machine;
    let relocates = kernel.config().is_set("RANDOMIZE_BASE").then_some(NOT_RELOCATED);
    let words = relocates.into_iter().chain(kernel.spec.cmdline.split_whitespace());
    MachineSpec {
        image: kernel.image(),
        initramfs: initramfs.to_owned(),
        machine: machine.machine.clone(),
        cpu: machine.cpu.clone(),
        cpus: machine.smp,
        memory: machine.memory.to_string(),
        cmdline: words.map(str::to_owned).collect(),
    }
}
