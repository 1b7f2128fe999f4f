//! A scenario and its kernel → its machine, restored from a snapshot or booted for it.

use crate::{
    guest::{Guest, Module, initramfs},
    kernel::{Kernel, indexed_vmlinux},
    machine::{BOOT_DEADLINE, Death, Machine, MachineSpec, Userland, VMLINUX},
    plan,
    scenario::{Boot, Bootconfig, HOOK_MODULE, ModuleRef, ProgramName, Scenario, UserlandSpec},
};
use anyhow::{Error, Result};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// The inputs of a scenario's machine.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// Its kernel.
    pub kernel: &'a Kernel,
    /// The agent, modules and programs for the guest.
    pub guest: &'a Guest,
    /// The modules that were built for the scenario.
    pub modules: &'a BTreeMap<ModuleRef, Module>,
}

impl Subject<'_> {
    /// Returns the machine that the scenario needs.
    ///
    /// # Errors
    /// The initramfs cannot be built.
    pub(crate) fn spec(&self) -> Result<MachineSpec> {
        let spec = restored_spec(self.kernel, self.guest, restores_hooks(self.scenario))?;
        let mut spec = spec.of_scenario(self.scenario);
        if self.scenario.attaches_crash() {
            fit_for_crash(&mut spec, self.kernel);
        }
        if self.scenario.compares_executed() {
            spec.plugin.clone_from(&self.guest.plugin);
        }
        Ok(spec)
    }

    /// Starts the machine: restored by `pristine`, or booted for this scenario alone.
    pub(crate) fn start(
        &self,
        spec: MachineSpec,
        directory: &Path,
        pristine: impl FnOnce(&MachineSpec, &Path) -> Result<Machine, Death>,
    ) -> Result<Machine, Death> {
        let Subject { scenario, kernel, guest, modules } = *self;
        match (&scenario.userland, scenario.boot) {
            (Some(wanted), _) => boot_userland(&spec, wanted, (kernel, guest), directory, |tree| {
                let mut shared = programs(scenario, guest, tree)?;
                shared.extend(guest.script_modules(scenario, kernel)?.map_err(Error::msg)?);
                if scenario.attaches_crash() {
                    shared.extend(for_crash(kernel, guest, modules)?);
                }
                Ok(shared)
            }),
            (None, Boot::Snapshot) => pristine(&spec, directory),
            (None, Boot::Fresh) => boot(spec, scenario.bootconfig.as_ref(), directory),
        }
    }
}

/// Returns whether the scenario takes a restored machine that has the module for hooks.
pub(crate) fn restores_hooks(scenario: &Scenario) -> bool {
    scenario.hooks() && scenario.is_restored()
}

/// Boots a machine for one scenario.
fn boot(mut spec: MachineSpec, bootconfig: Option<&Bootconfig>, directory: &Path) -> Result<Machine, Death> {
    let Some(bootconfig) = bootconfig else { return Machine::boot(&spec, directory, BOOT_DEADLINE) };
    // QEMU has read the file once the agent answers; it is then removed.
    let file = initramfs::with_bootconfig(&spec.initramfs, bootconfig.as_str(), directory);
    let file = file.map_err(Death::Lab)?;
    spec.initramfs = file.path().to_owned();
    Machine::boot(&spec, directory, BOOT_DEADLINE)
}

/// A CPU without 52-bit addresses, for kernels that would use them: with 4 KiB pages, crash 8.0.6 then
/// fails with "cannot access vmalloc'd module memory".
const CPU_OF_48_BITS: &str = "neoverse-n1";

/// Selects a CPU on which crash can read the kernel's memory.
fn fit_for_crash(spec: &mut MachineSpec, kernel: &Kernel) {
    if kernel.config().is_set("ARM64_VA_BITS_52") {
        spec.cpu = CPU_OF_48_BITS.to_owned();
    }
}

/// Returns the files that crash reads: the kernel and its modules, with debug information.
fn for_crash(
    kernel: &Kernel,
    guest: &Guest,
    modules: &BTreeMap<ModuleRef, Module>,
) -> Result<Vec<(String, PathBuf)>> {
    let vmlinux = indexed_vmlinux(guest.userlands.cache(), kernel)?;
    let modules = modules.values().map(|module| (format!("{}.ko", module.name), module.debug.clone()));
    Ok(modules.chain([(VMLINUX.to_owned(), vmlinux)]).collect())
}

/// Builds the third-party programs that the scenario's scripts call, for the userland in `tree`.
fn programs(scenario: &Scenario, guest: &Guest, tree: &Path) -> Result<Vec<(String, PathBuf)>> {
    let build = |(name, libraries): (&ProgramName, &Vec<ProgramName>)| {
        Ok((name.to_string(), guest.programs.build(name, libraries, tree)?))
    };
    scenario.programs().map(build).collect()
}

/// Boots a machine with a whole userland.
pub(crate) fn boot_userland(
    spec: &MachineSpec,
    wanted: &UserlandSpec,
    (kernel, guest): (&Kernel, &Guest),
    directory: &Path,
    shared: impl FnOnce(&Path) -> Result<Vec<(String, PathBuf)>>,
) -> Result<Machine, Death> {
    let tree = guest.userlands.tree(wanted).map_err(Death::Lab)?;
    let shared = shared(&tree.path).map_err(Death::Lab)?;
    let agent = guest.agent.clone();
    let initramfs = guest.userland_initramfs(kernel).map_err(Death::Lab)?;
    let userland = Userland { tree: tree.path, agent, memory: tree.memory, initramfs, shared };
    Machine::boot_userland(spec, &userland, directory)
}

/// Keeps the addresses those of System.map, and the same in each guest of a kernel.
const NOT_RELOCATED: &str = "nokaslr";

/// Returns the machine that a kernel's file describes.
///
/// # Errors
/// The initramfs with the kernel's boot modules cannot be built.
pub fn machine_spec(kernel: &Kernel, guest: &Guest) -> Result<MachineSpec> {
    Ok(machine_with(kernel, &guest.initramfs_for(kernel, &[])?).of_guest(guest))
}

/// Like [`machine_spec`], but with the module for hooks in the initramfs if `hooks` is set. It is then
/// loaded once per snapshot, instead of in each scenario, where that takes 0.2 s under emulation.
pub(crate) fn restored_spec(kernel: &Kernel, guest: &Guest, hooks: bool) -> Result<MachineSpec> {
    if !hooks {
        return machine_spec(kernel, guest);
    }
    let module = guest.modules.find(kernel, HOOK_MODULE)?;
    Ok(machine_with(kernel, &guest.initramfs_for(kernel, &[module.file])?).of_guest(guest))
}

impl MachineSpec {
    /// Adds what the keys of a scenario say about its machine.
    pub(crate) fn of_scenario(mut self, scenario: &Scenario) -> MachineSpec {
        self.cmdline.extend(plan::cmdline(scenario));
        self.icount = scenario.icount;
        self.cpus = if self.icount.is_some() { 1 } else { self.cpus };
        self
    }

    fn of_guest(self, guest: &Guest) -> MachineSpec {
        let plugin = guest.plugin.clone().filter(|_| guest.measures);
        MachineSpec { plugin, in_turn: guest.in_turn, ..self }
    }
}

/// Like [`machine_spec`], but with the given initramfs.
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
        icount: None,
        in_turn: false,
        memory: machine.memory.to_string(),
        cmdline: words.map(str::to_owned).collect(),
        plugin: None,
    }
}
