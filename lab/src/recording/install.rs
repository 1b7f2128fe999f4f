//! A machine prepared for the user instead of a scenario: it has all workloads and the lab's modules in
//! the same places, and some modules are loaded.

use super::{
    files::{EXECUTABLE, Files, READABLE},
    link::Link,
    modules::{Insmod, MODULES, Modules, section_bases},
    tape::Traced,
};
use crate::{
    guest::{Guest, Module},
    kernel::Kernel,
    machine::{Death, Machine},
    scenario::ModuleRef,
};
use anyhow::anyhow;
use std::{collections::BTreeMap, path::PathBuf, time::Duration};

/// The time limit on the reference machine.
const INSTALL_DEADLINE: Duration = Duration::from_secs(30);

/// The programs and modules to install in a guest.
#[derive(Clone, Debug, Default)]
pub struct GuestFiles {
    /// Programs in addition to the workloads: paths in the guest and files.
    pub programs: Vec<(String, PathBuf)>,
    /// Modules to copy into the guest.
    pub modules: Vec<Module>,
    /// Those of the modules to load, in this order.
    pub load: Vec<Module>,
}

/// A module that was loaded.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The module.
    pub module: Module,
    /// The addresses of its sections by name.
    pub bases: BTreeMap<String, u64>,
}

/// Installs it. Returns the loaded modules with the addresses of their sections.
pub fn install(
    kernel: &Kernel,
    machine: &mut Machine,
    guest: &Guest,
    wanted: &GuestFiles,
) -> Result<Vec<Loaded>, Death> {
    let mut traced = Traced::new(Link::new(machine, INSTALL_DEADLINE));
    let mut files = Files::new(guest);
    for (path, file) in &wanted.programs {
        files.push(&mut traced.link, path, file, EXECUTABLE)?;
    }
    for name in guest.workloads.keys() {
        files.push_workload(&mut traced.link, name)?.map_err(|reason| Death::Lab(anyhow!(reason)))?;
    }
    for module in &wanted.modules {
        let path = format!("{MODULES}/{}.ko", module.name);
        files.push(&mut traced.link, &path, &module.file, READABLE)?;
    }
    let built = wanted.load.iter().map(|module| (ModuleRef::Named(module.name.clone()), module.clone()));
    let mut modules = Modules::new(kernel, built.collect());
    let mut loaded = Vec::new();
    for module in &wanted.load {
        let failures = modules.load(&mut traced, &mut files, &Insmod::named(&module.name))?;
        if !failures.is_empty() {
            let failures = failures.join("; ");
            return Err(Death::Lab(anyhow!("cannot load the module `{}`: {failures}", module.name)));
        }
        let bases = section_bases(&mut traced.link, module)?;
        loaded.push(Loaded { module: module.clone(), bases });
    }
    Ok(loaded)
}
